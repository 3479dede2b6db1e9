"""All SQL about tasks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import Task
from app.domain.errors import Fenced
from app.domain.states import TASK_MOVES, TaskState, sources_of


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
