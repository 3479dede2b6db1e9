"""What was done about an agent, among the events that it reported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from app.db.engine import Database
from app.db.events import EventFilter
from app.db.guardian import list_interventions_between
from app.db.models import Intervention
from app.web.operator_models import EventItem, HeartbeatRun

Item = TypeVar("Item", bound=EventItem | HeartbeatRun)


def as_event(row: Intervention) -> EventItem:
    """Its number is that of the event it stands before: numbers of its own are the sandbox's to give."""
    return EventItem(
        seq=row.at_seq,
        event_type=row.event_type,
        event_data=dict(row.event_data),
        source="system",
        timestamp=row.created_at,
        received_at=row.created_at,
    )


async def read_interventions(
    database: Database, sandbox_id: str, wanted: EventFilter, upto: int | None
) -> list[EventItem]:
    """Those before an event numbered above `wanted.after` and at most `upto` (None: all that are left)."""
    async with database.read() as session:
        rows = await list_interventions_between(session, sandbox_id, wanted.after, upto)
    return [as_event(row) for row in rows if is_wanted(row, wanted)]


def is_wanted(row: Intervention, wanted: EventFilter) -> bool:
    """By type and time; its place is not looked at."""
    return (
        (not wanted.event_types or row.event_type in wanted.event_types)
        and (wanted.since is None or row.created_at >= wanted.since)
        and (wanted.until is None or row.created_at <= wanted.until)
    )


def put_in(items: Sequence[Item], seqs: Sequence[int], added: Sequence[EventItem]) -> list[Item | EventItem]:
    """`items` with those in their places; `seqs` are the numbers that the items stand for, in order."""
    placed: list[tuple[int, int, Item | EventItem]] = [(one.seq, 0, one) for one in added]
    placed += [(seq, 1, item) for seq, item in zip(seqs, items, strict=True)]
    return [entry[2] for entry in sorted(placed, key=lambda entry: entry[:2])]
