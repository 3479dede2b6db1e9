"""SQL of starting ended work again: which phases and tasks are done anew."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.again import say_again
from app.db.ci import withdraw_failures
from app.db.guardian import settle_interventions
from app.db.models import Phase, Sandbox, Spec, Task
from app.db.specs import find_live_spec
from app.db.tasks import list_tasks
from app.domain.plan import FOLLOW_UP
from app.domain.replies import RetryRefusal, RetryRefused
from app.domain.states import Flow, PhaseState, SpecState, TaskState
from sandbox_payload.wire.plan import PhaseName

_LIKE_A_TASK = re.compile(r"[a-z][0-9]{1,4}")


async def record_retry(
    session: AsyncSession, spec_id: str, now: datetime, what: str | None = None
) -> RetryRefused | None:
    """Start a failed or cancelled spec again; None when it starts. What is not done is taken up. Of one in review, a round
    that failed.

    `what`: a phase up to the first unfinished one, from which on all is done anew and approved anew; or the key of a
    task in any case, which is done again with every task that depends on it.
    """
    spec: Spec | None = await session.scalar(
        select(Spec).where(Spec.id == spec_id).with_for_update().execution_options(populate_existing=True)
    )
    if spec is None:
        return RetryRefused(RetryRefusal.NOT_FOUND)
    if spec.state is SpecState.COMPLETED:
        return RetryRefused(RetryRefusal.DONE)
    live = await find_live_spec(session, spec.repo_id, spec.issue_number)
    if live is not None:
        if live.id == spec_id and live.cancel_asked_at is not None:
            return RetryRefused(RetryRefusal.ENDING)
        begun = live.id == spec_id and await _retry_round(session, spec, what, now)
        return None if begun else RetryRefused(RetryRefusal.AT_WORK, state=live.state)
    if spec.concluded_at is None:
        return RetryRefused(RetryRefusal.ENDING)
    if spec.label_gone:
        return RetryRefused(RetryRefusal.LABEL_GONE)
    tasks = await list_tasks(session, spec_id)
    again = tasks_to_redo(tasks, what) if what is not None else frozenset()
    phase = None if again else what
    refused = await _reset_phases(session, spec, phase, now)
    if refused is not None:
        return _name_tasks(refused, what, tasks)
    await _reset_spec(session, spec_id, now, anew=phase is not None)
    await _reset_tasks(session, spec_id, again, now)
    await say_again(session, spec, now)
    if phase is not None:
        await withdraw_failures(session, spec_id)  # a new plan has nothing to do with them
    await settle_interventions(session, spec_id, now)
    return None


async def _retry_round(session: AsyncSession, spec: Spec, what: str | None, now: datetime) -> bool:
    """Work in review: the newest round that failed is to be done again, with all that was said and not followed. False
    when none did.
    """
    if spec.state is not SpecState.IN_REVIEW:
        return False
    failed = [
        task
        for task in await list_tasks(session, spec.id)
        if task.state is TaskState.FAILED and task.detail.get("kind") == FOLLOW_UP
        if what is None or task.key.lower() == what.lower()
    ]
    if not failed:
        return False
    task = failed[-1]
    task.state, task.attempts, task.reason, task.updated_at = TaskState.PENDING, 0, None, now
    task.detail = {**task.detail, "goes_on": True}  # its words are in the session
    spec.version, spec.due_at, spec.updated_at = spec.version + 1, now, now
    await session.flush()
    await say_again(session, spec, now)
    return True


async def _reset_spec(session: AsyncSession, spec_id: str, now: datetime, *, anew: bool) -> None:
    """`anew`: a plan is made again, and has to be approved again."""
    values: dict[str, Any] = (
        {} if not anew else {"plan_hash": None, "approved_hash": None, "approved_by": None}
    )
    await session.execute(
        update(Spec)
        .where(Spec.id == spec_id)
        .values(
            state=SpecState.QUEUED, outcome=None, outcome_detail=None, cancel_reason=None, cancel_asked_at=None,
            concluded_at=None, ended_at=None, failures=0, deferrals=0, notes=[], pull_ready_at=None,
            branch_attempts=0, plan_attempts=0, status_refused_at=None,
            pause_asked_at=None, pause_asked_by=None, paused_from=None,
            version=Spec.version + 1, due_at=now, updated_at=now, **values,
        )
    )  # fmt: skip


async def _reset_tasks(session: AsyncSession, spec_id: str, again: Collection[str], now: datetime) -> None:
    """What is not done, and what is to be done again."""
    await session.execute(
        update(Task)
        .where(
            Task.spec_id == spec_id,
            or_(Task.state.in_({TaskState.FAILED, TaskState.CANCELLED}), Task.key.in_(again)),
        )
        .values(state=TaskState.PENDING, attempts=0, reason=None, updated_at=now)
    )
    # How the planning sandbox of that try ended is told; left to be collected, it would end this one as well.
    await session.execute(
        update(Sandbox)
        .where(
            Sandbox.spec_id == spec_id,
            Sandbox.task_id.is_(None),
            Sandbox.manifest_round > Sandbox.collected_round,
        )
        .values(collected_round=Sandbox.manifest_round, updated_at=now)
    )


def tasks_to_redo(tasks: Sequence[Task], what: str) -> frozenset[str]:
    """Keys of the task called `what` in any case and of all that depend on it; empty when there is none."""
    redo = {task.key for task in tasks if task.key.lower() == what.lower()}
    for _ in tasks if redo else ():
        redo |= {task.key for task in tasks if redo.intersection(task.detail.get("depends_on", ()))}
    return frozenset(redo)


def _name_tasks(refused: RetryRefused, what: str | None, tasks: Sequence[Task]) -> RetryRefused:
    """Who names what looks like a task is told of tasks."""
    if what is None or not _LIKE_A_TASK.fullmatch(what):
        return refused
    return RetryRefused(RetryRefusal.UNKNOWN_TASK, names=tuple(task.key for task in tasks))


async def _reset_phases(
    session: AsyncSession, spec: Spec, phase: str | None, now: datetime
) -> RetryRefused | None:
    """What is unfinished may be tried anew; what is named, and all after it, is forgotten."""
    names = [name.value for name in PhaseName]
    found = (await session.scalars(select(Phase).where(Phase.spec_id == spec.id))).all()
    rows = sorted(found, key=lambda row: names.index(row.name))
    done = {row.name for row in rows if row.state is PhaseState.COMPLETED}
    unfinished = next((at for at, name in enumerate(names) if name not in done), len(names) - 1)
    if phase is not None:
        nameable = tuple(names[: unfinished + 1]) if spec.flow is not Flow.QUICK else ()
        if phase not in names or not nameable:
            return RetryRefused(RetryRefusal.UNKNOWN_PHASE, nameable)
        if phase not in nameable:
            return RetryRefused(RetryRefusal.LATER_PHASE, nameable)
    for row in rows:
        anew = phase is not None and names.index(row.name) >= names.index(phase)
        if anew:
            row.output, row.score, row.checks, row.started_at, row.ended_at = None, None, {}, None, None
        if anew or row.state is not PhaseState.COMPLETED:
            row.state, row.attempts, row.findings, row.updated_at = PhaseState.PENDING, 0, [], now
    await session.flush()
    return None
