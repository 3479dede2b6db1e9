"""Deliveries: recorded raw before GitHub gets its 202, read later by intake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import insert_for
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


def _record(connection: Connection, deliveries: Mapping[DeliveryId, NewDelivery]) -> tuple[DeliveryId, ...]:
    known = set(connection.scalars(select(Delivery.id).where(Delivery.id.in_(list(deliveries)))))
    fresh = tuple(delivery_id for delivery_id in deliveries if delivery_id not in known)
    if fresh:
        # One statement for any number of rows, compiled once (a list of VALUES would be compiled for each length). Of
        # two processes that are told of the same delivery at once, both may call it new: a ring too many.
        rows = [_row(deliveries[delivery_id]) for delivery_id in fresh]
        connection.execute(
            insert_for(connection, Delivery.__table__).on_conflict_do_nothing(index_elements=["id"]), rows
        )
    return fresh


def _row(delivery: NewDelivery) -> dict[str, object]:
    return {
        "id": delivery.id,
        "event": delivery.event,
        "headers": dict(delivery.headers),
        "body": delivery.body,
        "received_at": delivery.received_at,
        "state": DeliveryState.RECEIVED,
        "attempts": 0,
    }


async def find_delivery(session: AsyncSession, delivery_id: DeliveryId) -> Delivery | None:
    return await session.get(Delivery, delivery_id)


async def find_oldest_unhandled(session: AsyncSession) -> datetime | None:
    """When the oldest delivery came in that nobody has dealt with yet."""
    oldest: datetime | None = await session.scalar(
        select(func.min(Delivery.received_at)).where(Delivery.state == DeliveryState.RECEIVED)
    )
    return oldest
