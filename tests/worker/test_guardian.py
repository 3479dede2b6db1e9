"""Running agents that are lost in what they do: reminded, then paused and asked about, once each."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event, select

from app.db.events import NewEvent, record_events
from app.db.guardian import list_interventions, settle_interventions
from app.db.messages import record_acknowledged
from app.db.models import GuardianTrail, Intervention, Message, Sandbox
from app.db.sandboxes import set_sandbox
from app.domain.ids import SandboxId
from app.domain.states import SpecState
from app.observability.crashpoints import CrashPointReached, arm
from app.web.event_intake import note_progress
from tests.domain.test_guardian import Told, bash, created, deleted, edited, error, many_reads
from tests.worker import planning
from tests.worker.bench import Bench
from tests.worker.test_comments import messages, poll, replies, say
from tests.worker.test_life import finish, start
from worker.supervise.guardian import MAX_BEHIND, MAX_EVENTS, Guardian, Looked

LOOP = [bash("make test")] * 5


async def tell(bench: Bench, *told: Told) -> None:
    """What the newest sandbox reports, as the web process takes it in."""
    async with bench.db.write() as session:
        box = (
            await session.scalars(select(Sandbox).where(Sandbox.id == bench.sandboxes.newest.sandbox_id))
        ).one()
        events = [
            NewEvent(box.last_seq + at, event_type, data, "agent", bench.clock())
            for at, (event_type, data) in enumerate(told, 1)
        ]
        note_progress(box, await record_events(session, box, events, bench.clock()), bench.clock())


async def look(bench: Bench) -> Looked | None:
    """As a worker does, every few seconds."""
    bench.clock.add(3)
    return await Guardian(bench.parts).look()


async def take_in(bench: Bench) -> str:
    """The agent is given the newest message, and confirms it; its text."""
    said = (await poll(bench))[-1]
    row = (await messages(bench))[-1]
    box = SandboxId(bench.sandboxes.newest.sandbox_id)
    async with bench.db.write() as session:
        await record_acknowledged(session, box, row.id, bench.clock())
    await tell(
        bench, ("agent.message_injected", {"message_id": str(row.id), "message_type": row.message_type})
    )
    return said


async def interventions(bench: Bench) -> list[Intervention]:
    async with bench.db.read() as session:
        return list(await list_interventions(session, (await bench.specs())[0].id, 50))


async def done(bench: Bench) -> list[tuple[str, str]]:
    return [(one.event_type, one.rule) for one in await interventions(bench)]


async def remind(bench: Bench, times: int) -> None:
    """Reminded and taken in, so often."""
    for _ in range(times):
        await tell(bench, *LOOP)
        assert await look(bench) == Looked(1, nudged=1)
        await take_in(bench)


async def test_loop_then_one_reminder_reaches_the_agent_and_is_seen_by_everyone(bench: Bench) -> None:
    number = await start(bench)
    await tell(bench, *LOOP)
    assert await look(bench) == Looked(1, nudged=1)
    said = await take_in(bench)
    assert "`make test`" in said
    assert [(one.message_type, one.author_id) for one in await messages(bench)] == [("guardian_nudge", None)]
    (one,) = await interventions(bench)
    assert (one.event_type, one.rule, one.text, one.at_seq) == ("guardian.nudged", "command", said, 6)
    await bench.pass_time(15)
    assert "The agent was reminded once: the same command again and again." in bench.status(number)
    assert replies(bench, number) == []


async def test_each_rule_reminds(bench: Bench) -> None:
    await start(bench)
    for told, rule in (
        (LOOP, "command"),
        ([error("the module has no such name")] * 3, "error"),
        ([edited("a.py", removed=a, added=b) for a, b in ("xy", "yx", "xy", "yx")], "edit"),
        (many_reads(60), "no_change"),
        ([deleted("tests/test_a.py"), bash("ls")], "tests"),
        ([created("tests/test_b.py", "@pytest.mark.skip"), bash("ls")], "tests"),
    ):
        await tell(bench, *told)
        assert await look(bench) == Looked(1, nudged=1), rule
        assert (await done(bench))[-1] == ("guardian.nudged", rule)
        await take_in(bench)
        async with bench.db.write() as session:
            await settle_interventions(session, (await bench.spec()).id, bench.clock())


async def test_usual_work_is_left_alone(bench: Bench) -> None:
    await start(bench)
    for told in (
        LOOP[:4],
        [error("the module has no such name")] * 2,
        [edited("a.py", removed=str(n), added=str(n + 1)) for n in range(9)],
        many_reads(59),
        [deleted("tests/test_a.py"), created("tests/test_b.py"), bash("ls")],
        [edited(f"{name}/a.py", added=name) for name in "abcdef"],
    ):
        await tell(bench, ("agent.waiting", {}), *told)
        assert await look(bench) == Looked(1)
    assert await messages(bench) == []


async def test_most_of_the_budget_is_used_up_then_said_once(bench: Bench) -> None:
    await start(bench)
    box = (await bench.boxes())[0]
    async with bench.db.write() as session:
        await set_sandbox(session, box.id, bench.clock(), spent_usd=8.5)
    for _ in range(3):
        await tell(bench, bash("ls"))
        await look(bench)
        if not await done(bench):
            continue
        await poll(bench)
    assert await done(bench) == [("guardian.nudged", "budget")]
    assert "85 %" in await take_in(bench)


async def test_plan_names_files_and_others_are_changed_then_warned_and_never_paused_for_it(
    bench: Bench,
) -> None:
    planning.start(bench)
    await bench.rest()
    await tell(bench, *LOOP[:2])
    await planning.plan(bench)
    await bench.pass_time(15)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    outside = [edited(f"{name}/more.py", added=name) for name in ("docs", "lib", "etc")]
    await tell(bench, edited("binomial.py", added="def binomial"), edited("tests/data.json", added="{}"))
    await look(bench)
    assert await done(bench) == []
    await remind(bench, 3)
    await tell(bench, *outside)
    await look(bench)
    assert [rule for _, rule in await done(bench)] == ["command"] * 3
    await tell(bench, *LOOP)
    assert await look(bench) == Looked(1, paused=1), "a warning that was left out does not silence the rules"


async def test_fourth_finding_pauses_asks_people_once_and_a_resume_starts_the_count_anew(
    bench: Bench,
) -> None:
    number = await start(bench)
    await remind(bench, 3)
    await tell(bench, *[error("the module has no such name @everyone <!-- issuewright:spec=x -->")] * 3)
    assert await look(bench) == Looked(1, paused=1)
    await bench.pass_time(15)
    spec = await bench.spec()
    assert (spec.state, spec.pause_asked_by) == (SpecState.PAUSED, None)
    assert bench.sandboxes.sights == {}
    assert spec.pull_number is not None
    (notice,) = replies(bench, spec.pull_number)
    assert "reminded 3 times" in notice
    assert "the same error again and again" in notice
    assert "(`the module has no such name @everyone`)" in notice
    assert notice.count("<!--") == 1, "the marker of our own"
    assert "The agent was reminded 3 times: the same command again and again." in bench.status(number)
    assert (await done(bench))[-1] == ("guardian.paused", "error")
    await bench.pass_time(600, 60)
    assert replies(bench, spec.pull_number) == [notice]
    say(bench, number, "/agent resume")
    await bench.pass_time(15)
    assert len(bench.sandboxes.orders) == 2
    await remind(bench, 3)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    await tell(bench, *LOOP)
    assert await look(bench) == Looked(1, paused=1)
    await bench.pass_time(15)
    assert len(replies(bench, spec.pull_number)) == 2


async def test_people_who_pause_and_resume_start_the_count_anew(bench: Bench) -> None:
    number = await start(bench)
    await remind(bench, 2)
    say(bench, number, "/agent pause")
    await bench.pass_time(15)
    say(bench, number, "/agent resume")
    await bench.pass_time(15)
    await remind(bench, 3)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING


async def test_failed_work_is_tried_again_by_a_person_then_the_count_starts_anew(bench: Bench) -> None:
    number = await start(bench)
    await remind(bench, 2)
    await bench.hand_in(text="half\n", status="failed", reason="model_error", detail="out of credit")
    await bench.pass_time(15)
    assert (await bench.spec()).state is SpecState.FAILED
    say(bench, number, "/agent retry")
    await bench.pass_time(15)
    await remind(bench, 3)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING


async def test_sandbox_is_lost_and_another_goes_on_then_reminders_of_the_task_still_count(
    bench: Bench,
) -> None:
    await start(bench)
    await remind(bench, 2)
    bench.sandboxes.lose(bench.sandboxes.newest.name)
    await bench.pass_time(30)
    assert len(bench.sandboxes.orders) == 2
    await remind(bench, 1)
    await tell(bench, *LOOP)
    assert await look(bench) == Looked(1, paused=1)


async def test_agent_never_confirms_then_after_its_time_the_loop_counts_again(bench: Bench) -> None:
    await start(bench)
    for nudged in (1, 0):
        await tell(bench, *LOOP)
        assert await look(bench) == Looked(1, nudged=nudged)
    bench.clock.add(301)
    await tell(bench, *LOOP)
    assert await look(bench) == Looked(1, nudged=1)


# ---------------------------------------------------------------- who is not judged


async def test_agent_waits_for_a_person_then_it_is_not_judged(bench: Bench) -> None:
    number = await start(bench)
    await tell(bench, *LOOP, ("agent.waiting", {}))
    assert await look(bench) is None
    await finish(bench, number)
    assert await look(bench) is None
    assert await messages(bench) == []


async def test_work_is_paused_or_stopped_then_its_agent_is_not_judged(bench: Bench) -> None:
    number = await start(bench)
    bench.sandboxes.obeys = False
    await tell(bench, *LOOP)
    say(bench, number, "/agent pause")
    await bench.rest()
    assert await look(bench) is None


async def test_planning_agent_reads_for_long_then_it_is_left_alone_and_a_loop_is_not(bench: Bench) -> None:
    planning.start(bench)
    await bench.rest()
    await tell(bench, *many_reads(200), deleted("tests/test_a.py"))
    assert await look(bench) == Looked(1)
    await tell(bench, *LOOP)
    assert await look(bench) == Looked(1, nudged=1)


# ---------------------------------------------------------------- twice, killed, flooded


@pytest.mark.parametrize("point", ["guardian.before", "guardian.after"])
async def test_worker_dies_around_a_reminder_then_there_is_one(bench: Bench, point: str) -> None:
    await start(bench)
    await tell(bench, *LOOP)
    arm(f"{point}=raise", bench.scratch)
    try:
        with pytest.raises(CrashPointReached):
            await look(bench)
    finally:
        arm("", bench.scratch)
    for _ in range(3):
        await look(bench)
    assert await done(bench) == [("guardian.nudged", "command")]
    assert len(await messages(bench)) == 1


async def test_worker_dies_around_a_pause_then_people_are_asked_once(bench: Bench) -> None:
    await start(bench)
    await remind(bench, 3)
    await tell(bench, *LOOP)
    arm("guardian.after=raise", bench.scratch)
    try:
        with pytest.raises(CrashPointReached):
            await look(bench)
    finally:
        arm("", bench.scratch)
    await look(bench)
    await bench.pass_time(15)
    spec = await bench.spec()
    assert spec.state is SpecState.PAUSED
    assert spec.pull_number is not None
    assert len(replies(bench, spec.pull_number)) == 1


async def test_many_workers_look_at_once_then_one_reminder(bench: Bench) -> None:
    await start(bench)
    await tell(bench, *LOOP)
    bench.clock.add(3)
    workers = [replace(bench.parts, worker_id=f"w{number}") for number in range(4)]
    looks = await asyncio.gather(*(Guardian(parts).look() for parts in workers))
    assert [one for one in looks if one is not None] == [Looked(1, nudged=1)]


async def test_other_worker_has_looked_since_then_nothing_is_done_twice(bench: Bench) -> None:
    """A worker that slept between reading and writing."""
    await start(bench)
    await tell(bench, *LOOP)
    slow = Guardian(bench.parts)
    answer = slow._answer

    async def late(*arguments: Any) -> Any:
        await look(bench)
        return await answer(*arguments)

    slow._answer = late  # type: ignore[method-assign]
    bench.clock.add(3)
    assert await slow.look() == Looked(1)
    assert len(await messages(bench)) == 1


async def test_sandbox_floods_then_a_look_reads_little_and_the_loop_is_found(bench: Bench) -> None:
    await start(bench)
    big = {"tool": "Bash", "input": {f"k{n}": "x" * 1_000 for n in range(200)}}
    await tell(bench, *many_reads(MAX_BEHIND), *[("agent.tool_use", big)] * 50, *LOOP)
    rows = 0

    def note(*arguments: Any) -> None:
        nonlocal rows
        rows += "event_data" in arguments[2]

    listen = bench.db.engine.sync_engine
    event.listen(listen, "before_cursor_execute", note)
    assert await look(bench) == Looked(1, nudged=1)
    event.remove(listen, "before_cursor_execute", note)
    assert rows == 1
    async with bench.db.read() as session:
        trail = (await session.scalars(select(GuardianTrail))).one()
        assert (await session.scalars(select(Message))).one().message_type == "guardian_nudge"
    assert trail.seen_seq == (await bench.boxes())[0].last_seq
    assert MAX_EVENTS < MAX_BEHIND


async def test_nothing_new_has_happened_then_a_look_is_one_statement(bench: Bench) -> None:
    await start(bench)
    await tell(bench, bash("ls"))
    assert await look(bench) == Looked(1)
    statements: list[str] = []

    def note(*arguments: Any) -> None:
        statements.append(arguments[2])

    listen = bench.db.engine.sync_engine
    event.listen(listen, "before_cursor_execute", note)
    assert await look(bench) is None
    event.remove(listen, "before_cursor_execute", note)
    assert len([text for text in statements if text != "BEGIN"]) == 1
