"""Events: numbered by their sandbox, stored once each, acknowledged up to the first gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import insert_for
from app.db.models import Event, Sandbox
from app.domain.ids import SandboxId

_PAGE = 1000


@dataclass(frozen=True)
class NewEvent:
    """One event as it may be stored: text without NUL, times within the database's range."""

    seq: int
    event_type: str
    event_data: dict[str, Any]
    source: str
    timestamp: datetime


@dataclass(frozen=True)
class EventFilter:
    """Which events to read: those after `after`, of these types (none = all), within these times (inclusive)."""

    after: int = 0
    event_types: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None


async def record_events(
    session: AsyncSession, sandbox: Sandbox, events: Sequence[NewEvent], now: datetime
) -> tuple[NewEvent, ...]:
    """Store what is new and move `sandbox.last_seq` to the highest contiguous number.

    `sandbox` is locked by the caller. Returns the events that were new, by number; a repeated number is a no-op.
    """
    unique = {event.seq: event for event in reversed(events)}
    if not unique:
        return ()
    rows = [
        {
            "sandbox_id": sandbox.id,
            "seq": event.seq,
            "event_type": event.event_type,
            "event_data": event.event_data,
            "source": event.source,
            "timestamp": event.timestamp,
            "received_at": now,
        }
        for event in unique.values()
    ]
    statement = (
        insert_for(session, Event).values(rows).on_conflict_do_nothing(index_elements=["sandbox_id", "seq"])
    )
    fresh = set(await session.scalars(statement.returning(Event.seq)))
    if fresh:
        sandbox.last_seq = await _contiguous(session, sandbox.id, sandbox.last_seq)
    return tuple(unique[seq] for seq in sorted(fresh))


async def _contiguous(session: AsyncSession, sandbox_id: str, last_seq: int) -> int:
    """Walks from the known number to the first gap, a page at a time."""
    while True:
        page = await session.scalars(
            select(Event.seq)
            .where(Event.sandbox_id == sandbox_id, Event.seq > last_seq)
            .order_by(Event.seq)
            .limit(_PAGE)
        )
        found = 0
        for seq in page:
            if seq != last_seq + 1:
                return last_seq
            last_seq = seq
            found += 1
        if found < _PAGE:
            return last_seq


async def list_events(
    session: AsyncSession, sandbox_id: SandboxId, wanted: EventFilter, limit: int
) -> Sequence[Event]:
    """Oldest first, at most `limit`."""
    statement = select(Event).where(Event.sandbox_id == sandbox_id, Event.seq > wanted.after)
    if wanted.event_types:
        statement = statement.where(Event.event_type.in_(wanted.event_types))
    if wanted.since is not None:
        statement = statement.where(Event.timestamp >= wanted.since)
    if wanted.until is not None:
        statement = statement.where(Event.timestamp <= wanted.until)
    return (await session.scalars(statement.order_by(Event.seq).limit(limit))).all()
