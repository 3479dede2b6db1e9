"""Deliveries: recorded raw before GitHub gets its 202, read later by intake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, Dialect, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.engine import Database
from app.db.models import Delivery
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


async def record_deliveries(database: Database, deliveries: Sequence[NewDelivery]) -> tuple[DeliveryId, ...]:
    """Store them all in one commit; a GUID that is known already is left as it is. Returns the ids that are new, in
    their order. Raises SQLAlchemyError.
    """
    unique: dict[DeliveryId, NewDelivery] = {}
    for delivery in deliveries:
        unique.setdefault(delivery.id, delivery)
    return await database.transact(lambda connection: _record(connection, unique)) if unique else ()


_COLUMNS = ("id", "event", "headers", "body", "received_at", "state", "attempts")


def _record(connection: Connection, deliveries: Mapping[DeliveryId, NewDelivery]) -> tuple[DeliveryId, ...]:
    known = set(connection.scalars(select(Delivery.id).where(Delivery.id.in_(list(deliveries)))))
    fresh = [delivery for delivery in deliveries.values() if delivery.id not in known]
    if fresh:
        # One statement for all rows, made by hand: the library would compile it anew for each number of rows, and row
        # by row the driver gives the interpreter away once for each, against a loop that is busy with requests. Of two
        # processes that are told of the same delivery at once, both may call it new: a ring too many.
        convert = _converters(connection.dialect)
        values = [
            process(value) for one in fresh for process, value in zip(convert, _values(one), strict=True)
        ]
        connection.exec_driver_sql(
            _insert(len(fresh), connection.dialect.paramstyle == "qmark"), tuple(values)
        )
    return tuple(delivery.id for delivery in fresh)


def _values(delivery: NewDelivery) -> tuple[object, ...]:
    return (
        delivery.id,
        delivery.event,
        dict(delivery.headers),
        delivery.body,
        delivery.received_at,
        DeliveryState.RECEIVED,
        0,
    )


@cache
def _insert(rows: int, qmark: bool) -> str:
    width = len(_COLUMNS)
    marks = ["?"] * (rows * width) if qmark else [f"${number}" for number in range(1, rows * width + 1)]
    places = ", ".join(f"({', '.join(marks[at : at + width])})" for at in range(0, rows * width, width))
    return f"INSERT INTO delivery ({', '.join(_COLUMNS)}) VALUES {places} ON CONFLICT (id) DO NOTHING"  # noqa: S608 - only our own names and marks


def _converters(dialect: Dialect) -> tuple[Callable[[Any], Any], ...]:
    """From Python's values to the driver's, as the columns' types do it."""
    types = [Delivery.__table__.c[name].type.dialect_impl(dialect) for name in _COLUMNS]
    return tuple(one.bind_processor(dialect) or _as_it_is for one in types)


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
