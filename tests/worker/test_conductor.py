"""Live specs side by side: people are told once, on the younger issue, and only of their own repository."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from app.db.sandboxes import set_sandbox
from app.domain.conductor import Told
from app.domain.states import SpecState
from app.domain.supply import Supply
from app.web.operator_reads import read_specs
from tests.domain.test_guardian import bash, edited
from tests.worker.bench import LABEL, Bench
from tests.worker.test_comments import replies
from tests.worker.test_guardian import look as guard, tell
from worker.supervise.conductor import Conductor


async def look(bench: Bench) -> Sequence[Told]:
    """As a worker does, every minute."""
    bench.clock.add(61)
    told = await Conductor(bench.parts).look()
    assert told is not None
    return told


async def look_for(bench: Bench, minutes: int) -> list[Told]:
    return [told for _ in range(minutes) for told in await look(bench)]


async def begin(bench: Bench, title: str, body: str) -> int:
    number = int(bench.github.open_issue(bench.name, "alice", title, body)["number"])
    bench.github.add_labels(bench.name, number, "alice", LABEL)
    await bench.rest()
    return number


async def test_two_agents_change_the_same_file_then_the_younger_issue_names_the_other_once(
    bench: Bench,
) -> None:
    first = await begin(bench, "Count the ways", "To climb stairs.")
    await tell(bench, edited("count.py", added="a"), bash("ls"))
    await guard(bench)
    second = await begin(bench, "Mend the count", "It is too slow.")
    await tell(bench, edited("other.py", added="a"), bash("ls"))
    await guard(bench)
    assert await look(bench) == []
    await tell(bench, edited("count.py", added="b"), bash("ls"))
    await guard(bench)
    (told,) = await look(bench)
    assert told.paths == ("count.py",)
    assert await look(bench) == []
    await bench.pass_time(5)
    assert replies(bench, first) == []
    (notice,) = replies(bench, second)
    assert f"#{first}" in notice
    assert "`count.py`" in notice


async def test_same_issue_twice_then_told_once_and_not_when_the_other_has_ended(bench: Bench) -> None:
    first = await begin(bench, "Count the ways", "To climb stairs.")
    second = await begin(bench, "Count the ways!", "To climb  stairs")
    workers = [replace(bench.parts, worker_id=f"w{number}") for number in range(3)]
    bench.clock.add(61)
    looks = await asyncio.gather(*(Conductor(parts).look() for parts in workers))
    assert [len(one) for one in looks if one is not None] == [1]
    await bench.rest()
    (notice,) = replies(bench, second)
    assert f"#{first} asks for the same" in notice
    listed = (await read_specs(bench.db, None, 10)).items
    assert {one.issue: one.told for one in listed} == {first: [], second: ["duplicate"]}
    bench.github.close_issue(bench.name, first, "alice")
    await bench.rest()
    await bench.pass_time(60)
    await begin(bench, "Count the ways", "To climb stairs. Or ladders.")
    assert await look(bench) == []


async def test_queue_stands_still_then_the_one_that_waits_says_so(bench: Bench) -> None:
    limits = replace(bench.parts.limits, supply=Supply(max_sandboxes=1))
    bench.parts = replace(bench.parts, limits=limits)
    await begin(bench, "Count the ways", "To climb stairs.")
    waiting = await begin(bench, "Mend the count", "It is too slow.")
    specs = await bench.specs()
    assert specs[1].queued_at is not None
    told = await look_for(bench, 17)
    assert [one.spec.issue_number for one in told] == [waiting]
    assert await look(bench) == []
    await bench.rest()
    assert sum("Nothing moves" in text for text in replies(bench, waiting)) == 1
    assert (await bench.specs())[1].state in {SpecState.QUEUED, SpecState.IMPLEMENTING}


async def test_agent_waits_long_for_a_tool_then_the_queue_does_not_stand_still(bench: Bench) -> None:
    bench.parts = replace(bench.parts, limits=replace(bench.parts.limits, supply=Supply(max_sandboxes=1)))
    await begin(bench, "Count the ways", "To climb stairs.")
    await begin(bench, "Mend the count", "It is too slow.")
    (box,) = await bench.boxes()
    for _ in range(20):
        async with bench.db.write() as session:
            now = bench.clock()
            await set_sandbox(session, box.id, now, running="Bash", last_heartbeat_at=now)
        assert await look(bench) == []


async def test_workers_were_away_then_the_queue_gets_its_time_to_move(bench: Bench) -> None:
    bench.parts = replace(bench.parts, limits=replace(bench.parts.limits, supply=Supply(max_sandboxes=1)))
    await begin(bench, "Count the ways", "To climb stairs.")
    await begin(bench, "Mend the count", "It is too slow.")
    assert await look(bench) == []
    bench.clock.add(3600)
    assert await look_for(bench, 14) == []
    assert len(await look_for(bench, 3)) == 1


async def test_alone_in_its_repository_then_nothing_is_said(bench: Bench) -> None:
    await begin(bench, "Count the ways", "To climb stairs.")
    await tell(bench, edited("count.py", added="a"), bash("ls"))
    await guard(bench)
    assert await look(bench) == []
