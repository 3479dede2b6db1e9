"""Commands in comments, and the label that approves: done once, or answered with why not."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select, update

from app.db.models import Phase, Spec, Task
from app.domain.states import Flow, MessageState, PhaseState, SpecState, TaskState
from sandbox_payload.wire import MessageType
from sandbox_payload.wire.plan import PhaseName
from tests.worker import planning
from tests.worker.bench import Bench
from tests.worker.test_comments import contents, messages, reactions, replies, say
from tests.worker.test_life import start
from tests.worker.test_told import fail

HASH, OLD = "abcdef0123" * 6, "9876543210" * 6
APPROVED = "agent:approved"


async def change(bench: Bench, **values: Any) -> None:
    async with bench.db.write() as session:
        await session.execute(update(Spec).values(**values))


async def hear(bench: Bench) -> None:
    """What people did is taken in and answered; the spec's own steps stand still."""
    await bench.receive(bench.new_deliveries())
    await bench.take_in()
    await change(bench, stepped_version=10_000, due_at=bench.clock.far)
    await bench.rest()


async def shown(bench: Bench, **values: Any) -> int:
    """A plan that people see and that waits; its issue."""
    number = await start(bench)
    plan: dict[str, Any] = {
        "state": SpecState.AWAITING_APPROVAL, "plan_hash": HASH, "plan_shown_hash": HASH, "plan_revision": 1,
        "plan_comment_url": "http://plan",
    }  # fmt: skip
    await change(bench, **{**plan, **values})
    return number


@pytest.mark.parametrize(
    "line", ["/agent approve", f"/agent approve {HASH}", f"/agent approve {HASH[:7].upper()}"]
)
async def test_plan_is_approved_by_a_writer_with_its_hash_or_without(bench: Bench, line: str) -> None:
    number = await shown(bench)
    comment = say(bench, number, f"> When you agree\r\n> /agent approve {OLD}\r\n\r\n{line}\r\n")
    again = say(bench, number, line, by="alice")
    await hear(bench)
    spec = await bench.spec()
    assert (spec.approved_hash, spec.approved_by) == (HASH, "carol")
    assert reactions(bench, comment) == reactions(bench, again) == ["+1"]
    assert replies(bench, number) == await contents(bench) == []


@pytest.mark.parametrize(
    ("values", "line", "reply"),
    [
        ({}, f"/agent approve {OLD}", "as it stands now"),
        ({"plan_hash": OLD}, "/agent approve", "as it stands now"),
        ({"plan_shown_hash": None}, "/agent approve", "as it stands now"),
        ({"state": SpecState.IMPLEMENTING}, "/agent approve", "Nothing waits"),
        ({"state": SpecState.PLANNING}, "/agent approve", "Nothing waits"),
        ({}, "/agent approve it", "I don't know"),
        ({"cancel_reason": "stopped", "cancel_asked_at": True}, "/agent approve", "Nothing waits"),
    ],
)  # fmt: skip
async def test_approval_of_another_plan_or_at_another_time_is_refused_and_answered(
    bench: Bench, values: dict[str, Any], line: str, reply: str
) -> None:
    if "cancel_asked_at" in values:
        values = {**values, "cancel_asked_at": bench.clock()}
    number = await shown(bench, **values)
    comment = say(bench, number, line)
    await hear(bench)
    assert (await bench.spec()).approved_hash is None
    assert [reply in text for text in replies(bench, number)] == [True]
    assert reactions(bench, comment) == []


async def test_approval_by_someone_without_write_access_is_refused(bench: Bench) -> None:
    number = await shown(bench)
    comment = say(bench, number, "/agent approve", by="bob")
    bench.github.add_labels(bench.name, number, "bob", APPROVED)
    await hear(bench)
    assert (await bench.spec()).approved_hash is None
    assert reactions(bench, comment) == ["confused"]
    assert replies(bench, number) == []


@pytest.mark.parametrize(
    ("values", "reply"),
    [
        ({}, None), ({"plan_revision": 2}, f"/agent approve {HASH[:12]}"),
        ({"plan_hash": OLD}, "as it stands now"), ({"state": SpecState.PLANNING}, "Nothing waits"),
    ],
)  # fmt: skip
async def test_label_approves_only_while_exactly_one_plan_has_been_shown(
    bench: Bench, values: dict[str, Any], reply: str | None
) -> None:
    number = await shown(bench, **values)
    bench.github.add_labels(bench.name, number, "carol", APPROVED)
    await hear(bench)
    assert (await bench.spec()).approved_hash == (None if reply else HASH)
    assert [reply in text for text in replies(bench, number)] == ([True] if reply else [])


async def test_label_that_is_taken_off_again_before_it_is_heard_approves_nothing(bench: Bench) -> None:
    number = await shown(bench)
    bench.github.add_labels(bench.name, number, "carol", APPROVED)
    bench.github.remove_label(bench.name, number, "carol", APPROVED)
    await hear(bench)
    assert (await bench.spec()).approved_hash is None


async def test_stop_gives_the_agent_its_grace_and_is_told(bench: Bench) -> None:
    number = await start(bench)
    comment = say(bench, number, "/agent stop\r\n\r\n> This goes nowhere.")
    await bench.rest()
    await bench.pass_time(40)
    assert (await bench.spec()).state is SpecState.CANCELLED
    assert "`/agent stop`" in bench.status(number)
    assert reactions(bench, comment) == ["+1"]
    assert await contents(bench) == []


async def test_stop_now_interrupts_the_running_tool_at_once(bench: Bench) -> None:
    number = await start(bench)
    rung: list[str] = []

    async def ring(sandbox_id: str) -> None:
        rung.append(sandbox_id)

    object.__setattr__(bench.parts, "ring", ring)
    say(bench, number, "/agent stop now\r\n")
    await bench.rest()
    found = await messages(bench)
    assert [(row.message_type, row.state) for row in found] == [
        (MessageType.INTERRUPT.value, MessageState.QUEUED)
    ]
    assert rung == [bench.sandboxes.newest.sandbox_id]
    assert (await bench.spec()).cancel_reason == "stopped"


async def test_command_added_by_an_edit_counts_once(bench: Bench) -> None:
    number = await start(bench)
    comment = say(bench, number, "Hm.")
    bench.github.edit_comment(comment, "carol", "Hm.\n/agent status")
    bench.github.edit_comment(comment, "carol", "Hm!\n/agent status")
    await bench.rest()
    await bench.pass_time(10)
    assert len(replies(bench, number)) == 1
    assert await contents(bench) == ["Hm!"]


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("/agent status", "being built"), ("/agent help", "`/agent approve`"), ("/agent", "`/agent approve`"),
        ("/agent dance", "I don't know"), ("/agent base", "I don't know"), ("/agent resume", "not paused"),
        ("/agent approve abc", "6 to 64"), ("/agent base main", "made already"),
        ("/agent base a..b", "not a name"), ("/agent base nowhere", "no branch nowhere"), ("/agent retry", "at work now"),
        ("/agent retry t1", "at work now"), ("/agent stop\n/agent status", "being stopped"),
    ],
)  # fmt: skip
async def test_command_that_tells_or_can_not_be_done_gets_one_short_reply(
    bench: Bench, line: str, reply: str
) -> None:
    number = await start(bench)
    say(bench, number, line)
    await hear(bench)
    assert [reply in text for text in replies(bench, number)] == [True]


async def test_very_many_commands_on_an_issue_are_answered_up_to_a_limit(bench: Bench) -> None:
    number = await start(bench)
    for _ in range(25):
        say(bench, number, "/agent status")
    await hear(bench)
    await bench.pass_time(60)
    assert len(replies(bench, number)) == 20


@pytest.mark.parametrize("line", ["/agent status", "/agent retry", "/agent approve"])
async def test_command_where_there_is_no_work_says_how_to_start_some(bench: Bench, line: str) -> None:
    number = bench.open_issue()
    say(bench, number, line)
    quiet = say(bench, number, "/agent nope", by="bob")
    await bench.rest()
    assert ["sets the label `agent`" in text for text in replies(bench, number)] == [True]
    assert reactions(bench, quiet) == ["confused"]


async def add_phases(bench: Bench, done: int) -> None:
    spec = await bench.spec()
    async with bench.db.write() as session:
        for at, name in enumerate(PhaseName):
            state = (
                PhaseState.COMPLETED if at < done else PhaseState.FAILED if at == done else PhaseState.PENDING
            )
            session.add(
                Phase(
                    spec_id=spec.id, name=name.value, state=state, version=1, revision=1, attempts=3,
                    output={"of": name.value} if at < done else None, checks={}, findings=["bad"],
                    updated_at=bench.clock(),
                )
            )  # fmt: skip


@pytest.mark.parametrize(
    ("what", "pending"), [("", 3), (" design", 3), (" requirements", 4), (" explore", 5)]
)
async def test_retry_begins_at_the_first_unfinished_phase_or_at_an_earlier_one(
    bench: Bench, what: str, pending: int
) -> None:
    number = await fail(bench)
    await change(bench, flow=Flow.FULL, plan_hash=HASH, approved_hash=HASH)
    await add_phases(bench, done=2)
    comment = say(bench, number, f"/agent retry{what}")
    await hear(bench)
    spec = await bench.spec()
    assert spec.state is SpecState.QUEUED
    assert spec.approved_hash == (None if what else HASH)
    async with bench.db.read() as session:
        rows = (await session.scalars(select(Phase))).all()
    again = [row for row in rows if row.state is PhaseState.PENDING]
    assert len(again) == pending
    assert all(row.output is None and row.attempts == 0 for row in again)
    assert all(row.output for row in rows if row not in again)
    assert reactions(bench, comment) == ["+1"]


@pytest.mark.parametrize(
    ("flow", "what", "reply"),
    [
        (Flow.FULL, "tasks", "You can name `explore` or `requirements` or `design`"),
        (Flow.FULL, "deploy", "no such phase"), (Flow.QUICK, "design", "without planning"),
    ],
)  # fmt: skip
async def test_retry_of_an_unknown_or_later_phase_says_which_can_be_named(
    bench: Bench, flow: Flow, what: str, reply: str
) -> None:
    number = await fail(bench)
    await change(bench, flow=flow)
    await add_phases(bench, done=2)
    say(bench, number, f"/agent retry {what}")
    await hear(bench)
    assert (await bench.spec()).state is SpecState.FAILED
    assert [reply in text for text in replies(bench, number)] == [True]


async def test_retry_after_the_label_was_removed_says_that_it_has_to_be_set_again(bench: Bench) -> None:
    number = await start(bench)
    bench.unlabel(number)
    await bench.rest()
    await bench.pass_time(60)
    assert (await bench.spec()).state is SpecState.CANCELLED
    assert "set the label again" in bench.status(number)
    pull = bench.github.pulls(bench.name)[0]
    assert "The work was cancelled" in pull["body"]
    assert "Work in progress" not in pull["body"]
    say(bench, number, "/agent retry")
    await hear(bench)
    assert (await bench.spec()).state is SpecState.CANCELLED
    assert ["Set the label again" in text for text in replies(bench, number)] == [True]


async def test_retry_while_the_work_is_being_stopped_takes_it_up_once_it_has_ended(bench: Bench) -> None:
    number = await start(bench)
    say(bench, number, "/agent stop")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    comment = say(bench, number, "/agent retry")
    await bench.pass_time(60)
    spec = await bench.spec()
    assert (spec.state, spec.cancel_asked_at) == (SpecState.IMPLEMENTING, None)
    assert len(bench.sandboxes.orders) == 2
    assert reactions(bench, comment) == ["+1"]
    assert replies(bench, number) == []


async def test_retry_beside_a_command_to_stop_is_refused_and_the_stop_counts(bench: Bench) -> None:
    number = await start(bench)
    say(bench, number, "/agent stop\n/agent retry")
    await bench.pass_time(60)
    assert (await bench.spec()).state is SpecState.CANCELLED
    assert ["in another comment" in text for text in replies(bench, number)] == [True]


@pytest.mark.parametrize(("key", "again"), [("t1", ["T1", "T2", "END"]), ("T2", ["T2", "END"])])
async def test_retry_of_a_task_does_that_one_again_and_what_depends_on_it(
    bench: Bench, key: str, again: list[str]
) -> None:
    number = await fail(bench)
    needs = {"T1": [], "T2": ["T1"], "T3": [], "END": ["T2", "T3"]}
    async with bench.db.write() as session:
        first = (await session.scalars(select(Task))).one()
        for at, (name, depends_on) in enumerate(needs.items()):
            row = first if name == "T1" else Task(id=f"task_{name}", spec_id=first.spec_id, attempts=1)
            row.key, row.position, row.title, row.description = name, at, name, ""
            row.detail, row.state = {"depends_on": depends_on}, TaskState.COMPLETED
            row.created_at = row.updated_at = bench.clock()
            session.add(row)
        first.state = TaskState.COMPLETED
    comment = say(bench, number, f"/agent retry {key}")
    await hear(bench)
    assert (await bench.spec()).state is SpecState.QUEUED
    async with bench.db.read() as session:
        rows = (await session.scalars(select(Task).order_by(Task.position))).all()
    assert [row.key for row in rows if row.state is TaskState.PENDING] == again
    assert reactions(bench, comment) == ["+1"]


async def test_retry_of_a_task_that_there_is_not_names_those_there_are(bench: Bench) -> None:
    number = await fail(bench)
    say(bench, number, "/agent retry t7")
    await hear(bench)
    assert (await bench.spec()).state is SpecState.FAILED
    assert ["You can name `T1`" in text for text in replies(bench, number)] == [True]


async def test_base_that_is_asked_for_before_the_branch_exists_is_where_it_starts(bench: Bench) -> None:
    bench.github.create_branch(bench.name, "alice", "release/1.0")
    number = bench.open_issue()
    bench.label(number)
    await bench.receive(bench.new_deliveries())
    await bench.take_in()
    comment = say(bench, number, "/agent base release/1.0")
    await bench.receive(bench.new_deliveries())
    await bench.take_in()
    await bench.rest()
    assert (await bench.spec()).base_branch == "release/1.0"
    assert bench.github.pulls(bench.name)[0]["base"]["ref"] == "release/1.0"
    assert ["from `release/1.0`" in text for text in replies(bench, number)] == [True]
    assert reactions(bench, comment) == []


async def test_base_that_is_asked_for_while_it_is_planned_is_where_the_branch_starts(bench: Bench) -> None:
    bench.github.create_branch(bench.name, "alice", "release/1.0")
    number = planning.start(bench)
    await bench.rest()
    say(bench, number, "/agent base release/1.0")
    await bench.rest()
    await planning.plan(bench)
    assert bench.github.pulls(bench.name)[0]["base"]["ref"] == "release/1.0"
    assert ["The plan was made on `main`" in text for text in replies(bench, number)] == [True]
