"""Which step comes next: every state of a spec, and tasks in the order of their plan."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from app.domain.states import SandboxState, SpecState, TaskState
from app.domain.steps import Next, PlanFacts, SandboxFacts, SpecFacts, StepName, TaskFacts, decide_step
from sandbox_payload.wire.graph import stable_order
from tests.domain.plans import task_graphs

RUNNING = SandboxFacts(SandboxState.RUNNING, 0, 0)
HANDED_IN = SandboxFacts(SandboxState.RUNNING, 1, 0)
ENDED = SandboxFacts(SandboxState.COMPLETED, 1, 1)
UNPLANNED = PlanFacts(None, has_news=False, complete=False, shown=False, approved=False)
PLANNED = replace(UNPLANNED, sandbox=RUNNING, complete=True)
FACTS = SpecFacts(
    SpecState.IMPLEMENTING, cancel_asked=False, concluded=False, has_branch=True, has_pull=True, pull_ready=False,
    tasks=(), plan=None,
)  # fmt: skip


def step_of(state: SpecState, plan: PlanFacts, *, said: bool) -> StepName | None:
    following = decide_step(replace(FACTS, state=state, plan=plan, messages_wait=said))
    return following.step if following else None


@pytest.mark.parametrize(
    ("plan", "said", "step"),
    [
        (UNPLANNED, False, StepName.PROVISION),
        (replace(UNPLANNED, sandbox=SandboxFacts(SandboxState.CREATING, 0, 0)), False, StepName.PROVISION),
        (replace(UNPLANNED, sandbox=RUNNING), False, StepName.WATCH),
        (replace(UNPLANNED, sandbox=RUNNING, has_news=True), False, StepName.PLAN),
        (replace(UNPLANNED, sandbox=HANDED_IN), False, StepName.PLAN),
        (replace(UNPLANNED, sandbox=ENDED), False, StepName.PROVISION),
        (PLANNED, False, StepName.SHOW),
        (replace(PLANNED, sandbox=ENDED), True, StepName.PROVISION),
    ],
)
def test_while_planning(plan: PlanFacts, said: bool, step: StepName) -> None:
    assert step_of(SpecState.PLANNING, plan, said=said) is step


@pytest.mark.parametrize(
    ("plan", "said", "step"),
    [
        (replace(PLANNED, shown=True), False, StepName.APPROVE),
        (replace(PLANNED, shown=True, approved=True), False, StepName.APPROVE),
        (replace(PLANNED, shown=True, has_news=True), False, StepName.PLAN),
        (PLANNED, False, StepName.SHOW),
        (replace(PLANNED, shown=True, sandbox=ENDED), True, StepName.PROVISION),
        (replace(PLANNED, shown=True, sandbox=ENDED, approved=True), True, StepName.APPROVE),
    ],
)
def test_while_approval_is_awaited(plan: PlanFacts, said: bool, step: StepName) -> None:
    assert step_of(SpecState.AWAITING_APPROVAL, plan, said=said) is step


def tasks_of(edges: dict[str, list[str]], states: dict[str, TaskState]) -> tuple[TaskFacts, ...]:
    done = {key for key, state in states.items() if state is TaskState.COMPLETED}
    return tuple(
        TaskFacts(
            key,
            states[key],
            done.issuperset(edges[key]),
            RUNNING if states[key] is TaskState.RUNNING else None,
        )
        for key in stable_order(edges)
    )


@settings(max_examples=60)
@given(task_graphs(), st.integers(1, 4))
def test_every_task_is_reached_after_what_it_needs_and_never_too_many_at_once(
    edges: dict[str, list[str]], most: int
) -> None:
    states = dict.fromkeys(edges, TaskState.PENDING)
    done: set[str] = set()
    while len(done) < len(edges):
        running = [key for key, state in states.items() if state is TaskState.RUNNING]
        assert len(running) <= most
        following = decide_step(replace(FACTS, tasks=tasks_of(edges, states), max_parallel=most))
        assert following is not None
        if following.step is StepName.PROVISION:
            key = following.task or ""
            assert done.issuperset(edges[key])
            states[key] = TaskState.RUNNING
        else:
            assert following.step is StepName.WATCH
            assert following.task in running
            states[running[-1]] = TaskState.COMPLETED
            done.add(running[-1])
    assert decide_step(replace(FACTS, tasks=tasks_of(edges, states))) == Next(StepName.PUBLISH)


def test_result_of_one_task_is_dealt_with_before_another_starts() -> None:
    tasks = (
        TaskFacts("T1", TaskState.PENDING, ready=True, sandbox=None),
        TaskFacts("T2", TaskState.RUNNING, ready=True, sandbox=HANDED_IN),
    )
    assert decide_step(replace(FACTS, tasks=tasks, max_parallel=2)) == Next(StepName.COLLECT, "T2")


def test_machine_is_started_before_the_pull_request_is_made() -> None:
    task = TaskFacts("T1", TaskState.PENDING, ready=True, sandbox=None)
    facts = replace(FACTS, has_pull=False, tasks=(task,))
    assert decide_step(facts) == Next(StepName.PROVISION, "T1")
    assigned = replace(task, state=TaskState.ASSIGNED, sandbox=SandboxFacts(SandboxState.PENDING, 0, 0))
    assert decide_step(replace(facts, tasks=(assigned,))) == Next(StepName.PULL)


def test_failed_task_that_nobody_spoke_of_is_looked_at_again() -> None:
    done = TaskFacts("T1", TaskState.COMPLETED, ready=True, sandbox=ENDED)
    failed = TaskFacts("T2", TaskState.FAILED, ready=True, sandbox=ENDED)
    assert decide_step(replace(FACTS, tasks=(done, failed))) == Next(StepName.WATCH, "T2")
