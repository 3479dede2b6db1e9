"""Deliveries: recorded raw before GitHub gets its 202, read later by intake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Dialect, LargeBinary, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.engine import Database
from app.db.models import Delivery
from app.db.types import pack
from app.domain.ids import DeliveryId
from app.domain.states import DeliveryState


@dataclass(frozen=True)
class NewDelivery:
    """One POST from GitHub as it came in: `headers` are the allowed ones only, `body` the raw bytes."""

    id: DeliveryId
    event: str
    headers: Mapping[str, str]
    body: bytes
    received_at: datetime

    @cached_property
    def packed(self) -> bytes:
        """The body as it is stored. Made when first asked for: whoever brings a delivery can have it made before the
        writer's turn comes.
        """
        return pack(self.body)


async def record_deliveries(database: Database, deliveries: Sequence[NewDelivery]) -> tuple[DeliveryId, ...]:
    """Store them all in one commit; a GUID that is known already is left as it is. Returns the ids that are new, in
    their order. Raises SQLAlchemyError.
    """
    unique: dict[DeliveryId, NewDelivery] = {}
    for delivery in deliveries:
        unique.setdefault(delivery.id, delivery)
    if not unique:
        return ()
    # Converted here and not in the thread, which should need the interpreter as seldom as can be.
    convert = _converters(database.engine.dialect)
    rows = {
        one.id: [process(value) for process, value in zip(convert, _values(one), strict=True)]
        for one in unique.values()
    }
    return await database.transact_last(lambda connection: _record(connection, rows))


def _record(connection: Connection, rows: Mapping[DeliveryId, list[Any]]) -> tuple[DeliveryId, ...]:
    # Statements made by hand: the library would compile them anew for each number of rows, and row by row the driver
    # gives the interpreter away once for each, against a loop that is busy with requests. Of two processes that are
    # told of the same delivery at once, both may call it new: a ring too many.
    qmark = connection.dialect.paramstyle == "qmark"
    known = {found for (found,) in connection.exec_driver_sql(_select(len(rows), qmark), tuple(rows))}
    fresh = {one: row for one, row in rows.items() if one not in known}
    if fresh:
        values = tuple(chain.from_iterable(fresh.values()))
        connection.exec_driver_sql(_insert(len(fresh), qmark), values)
    return tuple(fresh)


_COLUMNS = ("id", "event", "headers", "body", "received_at", "state", "attempts")


def _values(delivery: NewDelivery) -> tuple[object, ...]:
    return (
        delivery.id,
        delivery.event,
        dict(delivery.headers),
        delivery.packed,
        delivery.received_at,
        DeliveryState.RECEIVED,
        0,
    )


@cache
def _select(rows: int, qmark: bool) -> str:
    return f"SELECT id FROM delivery WHERE id IN ({', '.join(_marks(rows, qmark))})"  # noqa: S608 - only our own names and marks


@cache
def _insert(rows: int, qmark: bool) -> str:
    width = len(_COLUMNS)
    marks = _marks(rows * width, qmark)
    places = ", ".join(f"({', '.join(marks[at : at + width])})" for at in range(0, rows * width, width))
    return f"INSERT INTO delivery ({', '.join(_COLUMNS)}) VALUES {places} ON CONFLICT (id) DO NOTHING"  # noqa: S608 - only our own names and marks


def _marks(count: int, qmark: bool) -> list[str]:
    return ["?"] * count if qmark else [f"${number}" for number in range(1, count + 1)]


@cache
def _converters(dialect: Dialect) -> tuple[Callable[[Any], Any], ...]:
    """From Python's values to the driver's, as the columns' types do it."""
    types = {name: Delivery.__table__.c[name].type.dialect_impl(dialect) for name in _COLUMNS}
    types["body"] = LargeBinary()  # packed already
    return tuple(one.bind_processor(dialect) or _as_it_is for one in types.values())


def _as_it_is(value: Any) -> Any:
    return value


async def find_delivery(session: AsyncSession, delivery_id: DeliveryId) -> Delivery | None:
    return await session.get(Delivery, delivery_id)


async def find_oldest_unhandled(session: AsyncSession) -> datetime | None:
    """When the oldest delivery came in that nobody has dealt with yet."""
    oldest: datetime | None = await session.scalar(
        select(func.min(Delivery.received_at)).where(Delivery.state == DeliveryState.RECEIVED)
    )
    return oldest
