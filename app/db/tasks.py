"""All SQL about tasks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import Sandbox, Task
from app.domain.errors import Fenced
from app.domain.plan import FOLLOW_UP
from app.domain.states import TASK_MOVES, TaskState, sources_of

_OF_A_RESULT = frozenset({"conflict", "test", "evidence"})
"""What a task's detail has of its result."""


async def list_tasks(session: AsyncSession, spec_id: str) -> list[Task]:
    statement = select(Task).where(Task.spec_id == spec_id).order_by(Task.position)
    return list((await session.execute(statement)).scalars())


async def move_task(
    session: AsyncSession, task_id: str, target: TaskState, now: datetime, **values: Any
) -> None:
    """Enter `target` (again is fine). Raises Fenced when the table of moves does not allow it from where it stands."""
    allowed = {*sources_of(TASK_MOVES, target), target}
    statement = (
        update(Task)
        .where(Task.id == task_id, Task.state.in_(allowed))
        .values(state=target, updated_at=now, **values)
        .returning(Task.id)
    )
    if (await session.execute(statement)).scalar_one_or_none() is None:
        raise Fenced(f"task {task_id}: can't become {target}")


async def set_task_detail(session: AsyncSession, task_id: str, detail: dict[str, Any], now: datetime) -> None:
    await session.execute(update(Task).where(Task.id == task_id).values(detail=detail, updated_at=now))


async def close_tasks(
    session: AsyncSession, spec_id: str, sources: Iterable[TaskState], target: TaskState, now: datetime
) -> None:
    """Move all tasks of a spec that stand in one of `sources`."""
    statement = (
        update(Task)
        .where(Task.spec_id == spec_id, Task.state.in_(set(sources)))
        .values(state=target, updated_at=now)
    )
    await session.execute(statement)


async def record_anew(session: AsyncSession, spec_id: str, now: datetime) -> None:
    """Nothing of what was done is on the branch that the work has from now on: each task is to be done again there, and
    what followed the earlier result falls away with it. `anew_at` tells sessions from before.
    """
    for task in await list_tasks(session, spec_id):
        follows = task.detail.get("kind") == FOLLOW_UP
        task.state = TaskState.CANCELLED if follows else TaskState.PENDING
        task.attempts, task.summary, task.reason, task.updated_at = 0, None, None, now
        kept = {key: value for key, value in task.detail.items() if key not in _OF_A_RESULT}
        task.detail = {**kept, "anew_at": now.isoformat()}
    await session.flush()
    # What a sandbox handed in when it was stopped stands on the old branch: it is not collected onto the new one.
    uncollected = Sandbox.manifest_round > Sandbox.collected_round
    await session.execute(
        update(Sandbox)
        .where(Sandbox.spec_id == spec_id, Sandbox.task_id.is_not(None), uncollected)
        .values(collected_round=Sandbox.manifest_round, updated_at=now)
    )
