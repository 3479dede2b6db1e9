"""Deliveries: recorded raw before GitHub gets its 202, read later by intake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import chain
from typing import Any

from pydantic_core import to_json
from sqlalchemy import Dialect, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.engine import Database
from app.db.models import Delivery
from app.db.types import pack
from app.domain.ids import DeliveryId
from app.domain.states import DeliveryState


@dataclass(slots=True)
class NewDelivery:
    """One POST from GitHub as it came in: `headers` are the allowed ones only, `body` its raw bytes."""

    id: DeliveryId
    event: str
    headers: dict[str, str]
    body: bytes
    received_at: datetime


async def record_deliveries(database: Database, deliveries: Sequence[NewDelivery]) -> tuple[DeliveryId, ...]:
    """Store them all in one commit; a GUID that is known already is left as it is, and of one that is repeated the first
    counts. Returns the ids that are new. Raises SQLAlchemyError.
    """
    if not deliveries:
        return ()
    # Converted here and not in the thread, which should need the interpreter as seldom as can be.
    row = _row_maker(database.engine.dialect)
    values = list(chain.from_iterable(map(row, deliveries)))

    def packed() -> list[object]:
        values[_BODY::_WIDTH] = pack([one.body for one in deliveries])
        return values

    stored = await database.execute_alone(_insert(len(deliveries), database.dialect == "sqlite"), packed)
    return tuple(delivery_id for (delivery_id,) in stored)


_COLUMNS = ("id", "event", "headers", "body", "received_at", "state", "attempts")
_WIDTH = len(_COLUMNS)
_BODY = _COLUMNS.index("body")


@cache
def _insert(rows: int, qmark: bool) -> str:
    # Made by hand: the library would compile it anew for each number of rows, and row by row the driver gives the
    # interpreter away once for each.
    marks = ["?"] * (rows * _WIDTH) if qmark else [f"${number}" for number in range(1, rows * _WIDTH + 1)]
    places = ", ".join(f"({', '.join(marks[at : at + _WIDTH])})" for at in range(0, rows * _WIDTH, _WIDTH))
    columns = ", ".join(_COLUMNS)
    return f"INSERT INTO delivery ({columns}) VALUES {places} ON CONFLICT (id) DO NOTHING RETURNING id"  # noqa: S608 - only our own names and marks


@cache
def _row_maker(dialect: Dialect) -> Callable[[NewDelivery], tuple[object, ...]]:
    """From a delivery to the driver's values of a row, as the columns' types do it; its body is still to be packed."""
    received_at, state = (
        Delivery.__table__.c[name].type.dialect_impl(dialect).bind_processor(dialect) or _as_it_is
        for name in ("received_at", "state")
    )
    received = state(DeliveryState.RECEIVED)
    return lambda one: (
        one.id,
        one.event,
        to_json(one.headers).decode(),
        b"",
        received_at(one.received_at),
        received,
        0,
    )


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
