"""All SQL about planning: phases, what sandboxes report of them, the tasks of a finished plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import Event, Phase, Sandbox, Task
from app.domain.ids import new_task_id
from app.domain.states import PhaseState, TaskState
from sandbox_payload.wire import EventType
from sandbox_payload.wire.plan import PhaseName

PHASE_EVENTS = frozenset(
    {EventType.PHASE_STARTED, EventType.PHASE_RETRY, EventType.PHASE_COMPLETED, EventType.PHASE_FAILED}
)
"""What a planning sandbox reports its progress under."""
_NEWS_AT_ONCE = 50


async def list_phases(session: AsyncSession, spec_id: str) -> list[Phase]:
    """In their order."""
    rows = (await session.execute(select(Phase).where(Phase.spec_id == spec_id))).scalars()
    order = list(PhaseName)
    return sorted(rows, key=lambda row: order.index(PhaseName(row.name)))


async def find_unfinished_phase(session: AsyncSession, spec_id: str) -> str | None:
    """The first phase that has no output that passed; None when all have."""
    done = {row.name for row in await list_phases(session, spec_id) if row.state is PhaseState.COMPLETED}
    return next((name.value for name in PhaseName if name.value not in done), None)


async def record_phases(session: AsyncSession, spec_id: str, now: datetime) -> list[Phase]:
    """The rows of a spec's phases, pending where they are new; in their order."""
    known = {row.name: row for row in await list_phases(session, spec_id)}
    for name in PhaseName:
        if name.value not in known:
            row = Phase(
                spec_id=spec_id, name=name.value, state=PhaseState.PENDING, version=1, revision=0, attempts=0,
                checks={}, findings=[], updated_at=now,
            )  # fmt: skip
            session.add(row)
            known[name.value] = row
    await session.flush()
    return [known[name.value] for name in PhaseName]


async def restore_phases(
    session: AsyncSession, spec_id: str, outputs: Mapping[str, dict[str, Any]], now: datetime
) -> list[Phase]:
    """The plan as it was: what came after it is forgotten. Its tasks are still those that are stored."""
    rows = await list_phases(session, spec_id)
    for row in rows:
        row.state, row.findings, row.updated_at = PhaseState.COMPLETED, [], now
        row.output = outputs.get(row.name, row.output)
    return rows


async def list_phase_events(session: AsyncSession, sandbox: Sandbox) -> list[Event]:
    """What it reported of phases and the worker has not dealt with yet: oldest first, at most 50, and no further than
    its events are without a gap.
    """
    statement = (
        select(Event)
        .where(
            Event.sandbox_id == sandbox.id,
            Event.event_type.in_(PHASE_EVENTS),
            Event.seq > sandbox.noted_seq,
            Event.seq <= sandbox.last_seq,
        )
        .order_by(Event.seq)
        .limit(_NEWS_AT_ONCE)
    )
    return list((await session.execute(statement)).scalars())


async def has_phase_events(session: AsyncSession, sandbox: Sandbox) -> bool:
    statement = select(func.count()).where(
        Event.sandbox_id == sandbox.id,
        Event.event_type.in_(PHASE_EVENTS),
        Event.seq > sandbox.noted_seq,
        Event.seq <= sandbox.last_seq,
    )
    return bool((await session.execute(statement)).scalar_one())


@dataclass(frozen=True)
class NewTask:
    """One item of a plan as the task row keeps it; `detail` is the whole item."""

    key: str
    position: int
    title: str
    description: str
    detail: dict[str, Any]


async def record_tasks(session: AsyncSession, spec_id: str, tasks: Sequence[NewTask], now: datetime) -> None:
    """Make these the tasks of the spec. One that was there under its key goes on as it is if it is the same, else it is
    to be done (again); one that the plan no longer has goes, or stays as cancelled when a sandbox worked on it.
    """
    rows = {
        row.key: row for row in (await session.execute(select(Task).where(Task.spec_id == spec_id))).scalars()
    }
    worked_on = set(
        (await session.execute(select(Sandbox.task_id).where(Sandbox.spec_id == spec_id))).scalars()
    )
    for new in tasks:
        row = rows.pop(new.key, None)
        if row is None:
            session.add(
                Task(
                    id=new_task_id(), spec_id=spec_id, key=new.key, position=new.position, title=new.title,
                    description=new.description, detail=new.detail, state=TaskState.PENDING, attempts=0,
                    # Lists show the newest first, and these in the plan's order.
                    created_at=now - timedelta(microseconds=new.position), updated_at=now,
                )
            )  # fmt: skip
            continue
        same = all(row.detail.get(name) == value for name, value in new.detail.items())
        if not same or row.state is not TaskState.COMPLETED:
            row.state, row.attempts, row.summary, row.reason = TaskState.PENDING, 0, None, None
        row.position, row.title, row.description, row.detail = (
            new.position,
            new.title,
            new.description,
            new.detail,
        )
        row.updated_at = now
    for row in rows.values():
        if row.id in worked_on:
            row.state, row.position, row.updated_at = TaskState.CANCELLED, len(tasks) + row.position, now
        else:
            await session.execute(delete(Task).where(Task.id == row.id))
    await session.flush()


async def record_follow_up(
    session: AsyncSession,
    spec_id: str,
    item: Mapping[str, Any],
    now: datetime,
    state: TaskState = TaskState.PENDING,
) -> Task:
    """One more task of the spec, after all others. `item` has the form of the plan's items; `state` is failed for a round
    that belonged to no task and can be tried again as one.
    """
    last = (
        await session.execute(select(func.max(Task.position)).where(Task.spec_id == spec_id))
    ).scalar_one_or_none() or 0
    row = Task(
        id=new_task_id(), spec_id=spec_id, key=item["id"], position=last + 1, title=item["title"],
        description=item["description"], detail=dict(item), state=state, attempts=0,
        created_at=now, updated_at=now,
    )  # fmt: skip
    session.add(row)
    await session.flush()
    return row
