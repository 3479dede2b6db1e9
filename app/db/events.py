"""Events: numbered by their sandbox, stored once each, acknowledged up to the first gap."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from app.db.dialect import insert_for
from app.db.event_texts import record_texts
from app.db.models import Event, Sandbox
from app.domain.ids import SandboxId
from sandbox_payload.wire import EventType

_PAGE = 1000
MAX_BEATS = 1000
"""Heartbeats that one look folds: more than a day of them has between two other events of a living agent."""


@dataclass(frozen=True)
class NewEvent:
    """One event as it may be stored: text without NUL, times within the database's range."""

    seq: int
    event_type: str
    event_data: dict[str, Any]
    source: str
    timestamp: datetime
    full: Mapping[str, bytes] = field(default_factory=dict)
    """Whole texts of fields that were cut in `event_data`, compressed."""


@dataclass(frozen=True)
class EventFilter:
    """Which events to read: those after `after`, of these types (none = all), within these times (inclusive)."""

    after: int = 0
    event_types: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class Reported:
    """What one sandbox, whose row is locked, has reported; `passed_over` are numbers that count as stored."""

    sandbox: Sandbox
    events: Sequence[NewEvent]
    passed_over: Collection[int] = ()


async def record_events(
    session: AsyncSession,
    sandbox: Sandbox,
    events: Sequence[NewEvent],
    now: datetime,
    passed_over: Collection[int] = (),
) -> tuple[NewEvent, ...]:
    """As `record_reported`, of one sandbox."""
    reported = [Reported(sandbox, events, passed_over)]
    return (await session.run_sync(record_reported, reported, now))[sandbox.id]


def record_reported(
    session: Session, reported: Sequence[Reported], now: datetime
) -> dict[str, tuple[NewEvent, ...]]:
    """Store what is new and move each sandbox's `last_seq` to the highest contiguous number; `gap_since_at` says since
    when something is there beyond a gap.

    Each sandbox once. Returns the events that were new, by sandbox, in order; a repeated number is a no-op.
    """
    unique = {one.sandbox.id: {event.seq: event for event in reversed(one.events)} for one in reported}
    stored = _insert(session, unique, now)
    fresh: dict[str, tuple[NewEvent, ...]] = {}
    for one in reported:
        box, events = one.sandbox, unique[one.sandbox.id]
        seqs = sorted(stored.get(box.id, ()))
        fresh[box.id] = tuple(events[seq] for seq in seqs)
        record_texts(session, box.id, {seq: events[seq].full for seq in seqs})
        box.last_seq, gap = _highest(session, one, events, seqs)
        box.gap_since_at = (box.gap_since_at or now) if gap else None
    return fresh


def _insert(
    session: Session, events: Mapping[str, Mapping[int, NewEvent]], now: datetime
) -> dict[str, list[int]]:
    """The numbers that were new, by sandbox. One statement, so that it is compiled once whatever comes together."""
    rows = [
        {
            "sandbox_id": box,
            "seq": event.seq,
            "event_type": event.event_type,
            "event_data": event.event_data,
            "source": event.source,
            "timestamp": event.timestamp,
            "received_at": now,
        }
        for box, by_seq in events.items()
        for event in by_seq.values()
    ]
    if not rows:
        return {}
    statement = (
        insert_for(session, Event.__table__)
        .on_conflict_do_nothing(index_elements=["sandbox_id", "seq"])
        .returning(Event.__table__.c.sandbox_id, Event.__table__.c.seq)
    )
    stored: dict[str, list[int]] = {}
    for box, seq in session.execute(statement, rows):
        stored.setdefault(box, []).append(seq)
    return stored


def _highest(
    session: Session, one: Reported, sent: Collection[int], fresh: Collection[int]
) -> tuple[int, bool]:
    """The highest number with no gap before it, and whether something is known beyond a gap."""
    last_seq = one.sandbox.last_seq
    beyond = sorted(seq for seq in sent if seq > last_seq)
    if one.sandbox.gap_since_at is None and not one.passed_over and set(beyond).issubset(fresh):
        # Nothing was stored beyond that number before: what has just come is all there is, and nobody has to be asked.
        for seq in beyond:
            if seq > last_seq + 1:
                return last_seq, True
            last_seq = seq
        return last_seq, False
    return _walk(session, one.sandbox.id, last_seq, one.passed_over)


def _walk(session: Session, sandbox_id: str, last_seq: int, passed_over: Collection[int]) -> tuple[int, bool]:
    """From the known number to the first gap, a page at a time."""
    while True:
        page = session.scalars(
            select(Event.seq)
            .where(Event.sandbox_id == sandbox_id, Event.seq > last_seq)
            .order_by(Event.seq)
            .limit(_PAGE)
        )
        found = 0
        for seq in page:
            last_seq = _past(last_seq, passed_over)
            if seq > last_seq + 1:
                return last_seq, True
            last_seq = max(last_seq, seq)
            found += 1
        if found < _PAGE:
            last_seq = _past(last_seq, passed_over)
            return last_seq, any(seq > last_seq for seq in passed_over)


def _past(last_seq: int, passed_over: Collection[int]) -> int:
    while last_seq + 1 in passed_over:
        last_seq += 1
    return last_seq


@dataclass(frozen=True)
class Stretch:
    """Events in a row, oldest first: `others` whole, of the heartbeats between them only number and time.

    Between `after` and `end` nothing is missing; `end` None: there is nothing after them.
    """

    others: Sequence[Event]
    beats: Sequence[tuple[int, datetime]]
    end: int | None


async def list_stretch(session: AsyncSession, sandbox_id: SandboxId, after: int, limit: int) -> Stretch:
    """At most `limit` events that are no heartbeats, and at most `MAX_BEATS` heartbeats."""
    own = (Event.sandbox_id == sandbox_id, Event.seq > after)
    # All types that are no heartbeat lie on the two sides of it in the index over types; one walk by number is cheaper.
    found = (
        await session.scalars(
            select(Event)
            .where(*own, Event.event_type != EventType.HEARTBEAT)
            .order_by(Event.seq)
            .limit(limit + 1)
        )
    ).all()
    end = found[limit - 1].seq if len(found) > limit else None
    beats = select(Event.seq, Event.timestamp).where(*own, Event.event_type == EventType.HEARTBEAT)
    if end is not None:
        beats = beats.where(Event.seq < end)
    rows = (await session.execute(beats.order_by(Event.seq).limit(MAX_BEATS + 1))).all()
    if len(rows) > MAX_BEATS:
        end = rows[MAX_BEATS - 1][0]
    others = [event for event in found if end is None or event.seq <= end]
    return Stretch(others, [(seq, at) for seq, at in rows[:MAX_BEATS]], end)


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
