"""Within each state of docs/lifecycle.md its rows hold as well: for work that waits or is in a round, for several tasks at
once, wherever it was paused; and whichever delivery comes first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from sqlalchemy import select, update

from app.db.models import Sandbox, Spec, Task
from app.domain.ids import new_task_id
from app.domain.states import SandboxState, SpecState, TaskState
from tests.worker.bench import Bench
from tests.worker.lifecycle import Case, S, add_sandbox, make
from tests.worker.test_lifecycle_table import (
    ISSUE,
    PULL,
    WHOLE,
    hear,
    judge,
    know_repository,
    listen_to_everything,
    owe_status,
    remember,
    rows_of,
)

Made = Callable[[Bench], Awaitable[Case]]


async def _at_rest_or_in_a_round(bench: Bench, activity: str) -> Case:
    case = await make(bench, S.IN_REVIEW, pull=True)
    async with bench.db.write() as session:
        task = await session.scalar(select(Task).where(Task.spec_id == case.spec_id))
        session.add(add_sandbox(bench, case, task, activity))
    return case


async def waits_for_words(bench: Bench) -> Case:
    return await _at_rest_or_in_a_round(bench, "waiting")


async def is_in_a_round(bench: Bench) -> Case:
    return await _at_rest_or_in_a_round(bench, "working")


async def works_on_two_tasks(bench: Bench) -> Case:
    """And a third one follows both."""
    case = await make(bench, S.IMPLEMENTING, pull=True)
    async with bench.db.write() as session:
        for position, state, after in ((2, TaskState.RUNNING, []), (3, TaskState.PENDING, ["T1", "T2"])):
            task = Task(
                id=new_task_id(), spec_id=case.spec_id, key=f"T{position}", position=position, title="More",
                description="More.", state=state, attempts=1, detail={"depends_on": after},
                created_at=bench.clock(), updated_at=bench.clock(),
            )  # fmt: skip
            session.add(task)
            await session.flush()
            if state is TaskState.RUNNING:
                session.add(add_sandbox(bench, case, task, "working"))
    return case


async def _paused_from(bench: Bench, state: SpecState) -> Case:
    case = await make(bench, state, pull=state is S.IN_REVIEW)
    await bench.rest(listen=False)  # its check run and status comment are there
    async with bench.db.write() as session:
        values = {"state": S.PAUSED, "paused_from": state.value, "pause_asked_at": bench.clock()}
        of_it = Spec.id == case.spec_id
        await session.execute(update(Spec).where(of_it).values(**values, version=Spec.version + 1))
        gone = {"state": SandboxState.COMPLETED, "removed_at": bench.clock()}
        await session.execute(update(Sandbox).where(Sandbox.spec_id == case.spec_id).values(**gone))
    return replace(case, state=S.PAUSED, like=state, boxes=0)


async def paused_while_it_is_planned(bench: Bench) -> Case:
    return await _paused_from(bench, S.PLANNING)


async def paused_in_review(bench: Bench) -> Case:
    return await _paused_from(bench, S.IN_REVIEW)


WITHIN: tuple[Made, ...] = (
    waits_for_words,
    is_in_a_round,
    works_on_two_tasks,
    paused_while_it_is_planned,
    paused_in_review,
)


async def prepare(bench: Bench, wanted: tuple[Made, ...]) -> dict[str, Case]:
    listen_to_everything(bench)
    await know_repository(bench)
    bench.github.create_branch(bench.name, "alice", "next")
    cases = {one.__name__: await one(bench) for one in wanted}
    bench.seen |= {one["guid"] for one in bench.github.deliveries("installation")}
    await bench.pass_time(9, 3)
    bench.new_deliveries()
    for case in cases.values():
        remember(bench, case)
    return cases


async def faults_of(bench: Bench, event: str, cases: dict[str, Case]) -> list[str]:
    """What is not as the rows of the event say, once everybody had time to wrap up."""
    await bench.pass_time(60, 6)
    faults = []
    for name, case in cases.items():
        state = case.like or case.state
        rows = [replace(row, states=(state,)) for row in rows_of(event) if state in row.states]
        faults += [f"{name}: {fault}" for fault in await judge(bench, rows, {state: case})]
    return faults


@pytest.mark.parametrize("event", [*ISSUE, *PULL])
async def test_something_happens_to_issue_or_pull_request_then_each_part_of_a_state_does_as_the_table_says(
    bench: Bench, event: str
) -> None:
    has_pull = [one for one in WITHIN if one is not paused_while_it_is_planned]
    cases = await prepare(bench, WITHIN if event in ISSUE else tuple(has_pull))
    if event == "unlocked":
        await owe_status(bench, {case.like or case.state: case for case in cases.values()})
    for case in cases.values():
        {**ISSUE, **PULL}[event](bench, case)
    await hear(bench, backwards=True)
    assert await faults_of(bench, event, cases) == []


LINKS = {"renamed", "transferred to an owner with the App"}
"""What is said follows the new name at its next edit, which a sandbox that is there brings about."""


@pytest.mark.parametrize("event", [event for event in WHOLE if event not in LINKS])
async def test_something_happens_to_all_of_it_then_each_part_of_a_state_does_as_the_table_says(
    bench: Bench, event: str
) -> None:
    cases = await prepare(bench, WITHIN)
    done = WHOLE[event](bench)
    if hasattr(done, "__await__"):
        await done
    await hear(bench, backwards=True)
    assert await faults_of(bench, event, cases) == []
