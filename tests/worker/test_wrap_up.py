"""Work is cancelled while an agent is at it: it is told, has 30 seconds, and what it had done is not lost."""

from __future__ import annotations

import pytest

from app.db.sandboxes import set_sandbox
from app.db.specs import record_fact
from app.domain.states import MessageState, SandboxState, SpecState
from tests.worker.bench import Bench
from tests.worker.test_life import start
from worker.flow.wrap_up import WRAP_UP_S


async def cancel_at_work(bench: Bench) -> int:
    """A working agent's label is removed, and the worker has heard of it."""
    number = await start(bench)
    await bench.report(3)
    bench.unlabel(number)
    await bench.rest()
    return number


async def rest_with(bench: Bench, activity: str) -> None:
    """What its newest event says that it does."""
    order = bench.sandboxes.newest
    async with bench.db.write() as session:
        await set_sandbox(session, order.sandbox_id, bench.clock(), activity=activity)
        await record_fact(session, str(order.labels["spec"]), bench.clock())


async def test_agent_at_work_is_told_once_and_stopped_after_its_thirty_seconds(bench: Bench) -> None:
    await cancel_at_work(bench)
    await bench.pass_time(WRAP_UP_S / 2, 3)  # writes wait for their pace, which passes more of it
    [told] = await bench.messages()
    assert told.message_type == "system"
    assert "30 seconds" in told.content
    assert bench.sandboxes.stops == []
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    await bench.pass_time(WRAP_UP_S, 3)
    assert len(bench.sandboxes.stops) == 1
    assert (await bench.spec()).state is SpecState.CANCELLED
    assert [one.state for one in await bench.messages()] == [MessageState.CANCELLED]


async def test_agent_that_comes_to_rest_is_stopped_at_once_and_its_work_is_on_the_branch(
    bench: Bench,
) -> None:
    number = await cancel_at_work(bench)
    head = await bench.checkpoint()
    await rest_with(bench, "waiting")
    await bench.pass_time(3, 1)
    assert (await bench.spec()).state is SpecState.CANCELLED
    assert bench.git("show", f"{bench.github.pulls(bench.name)[0]['head']['sha']}:work.txt") == "half\n"
    assert "is on the branch" in bench.status(number)
    assert head


async def test_stop_now_while_it_wraps_up_takes_the_time_away(bench: Bench) -> None:
    number = await cancel_at_work(bench)
    bench.github.comment(bench.name, number, "alice", "/agent stop now")
    await bench.rest()
    await bench.pass_time(2, 1)
    assert len(bench.sandboxes.stops) == 1
    assert (await bench.spec()).state is SpecState.CANCELLED


@pytest.mark.parametrize("activity", [None, "starting", "waiting"])
async def test_agent_with_nothing_to_wrap_up_is_stopped_at_once(bench: Bench, activity: str | None) -> None:
    number = await start(bench)
    if activity is not None:
        await rest_with(bench, activity)
    bench.unlabel(number)
    await bench.rest()
    await bench.pass_time(2, 1)
    assert await bench.messages() == []
    assert (await bench.spec()).state is SpecState.CANCELLED


async def test_worker_dies_while_the_agent_wraps_up_then_the_next_one_neither_tells_nor_waits_anew(
    bench: Bench,
) -> None:
    await cancel_at_work(bench)
    bench.parts = bench.another_worker()
    await bench.pass_time(WRAP_UP_S + 4, 2)
    assert len(await bench.messages()) == 1
    assert (await bench.boxes())[0].state is SandboxState.COMPLETED


async def test_repository_archived_then_what_was_committed_is_kept_and_said_when_it_can_be(
    bench: Bench,
) -> None:
    number = await start(bench)
    await bench.report(3)
    await bench.checkpoint()
    bench.github.archive_repo(bench.name, "alice")
    payload = {
        "action": "archived", "installation": {"id": bench.installation_id},
        "repository": bench.github.repo(bench.name), "sender": bench.github.repo(bench.name)["owner"],
    }  # fmt: skip
    await bench.receive([{"guid": "archived-1", "event": "repository", "payload": payload}])
    await bench.rest()
    await bench.pass_time(3, 1)
    spec = await bench.spec()
    assert (spec.state, spec.cancel_reason) == (SpecState.CANCELLED, "archived")
    assert any("specs bundle" in note for note in spec.notes)
    bench.github.archive_repo(bench.name, "alice", archived=False)
    payload["action"] = "unarchived"
    await bench.receive([{"guid": "archived-2", "event": "repository", "payload": payload}])
    await bench.rest()
    assert "specs bundle" in bench.status(number)
