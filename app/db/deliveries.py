"""Deliveries: recorded raw before GitHub gets its 202, read later by intake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import insert_for
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


async def record_deliveries(
    session: AsyncSession, deliveries: Sequence[NewDelivery]
) -> frozenset[DeliveryId]:
    """Store them all; a GUID that is known already is left as it is. Returns the ids that are new."""
    unique = {delivery.id: delivery for delivery in deliveries}
    rows = [
        {
            "id": delivery.id,
            "event": delivery.event,
            "headers": dict(delivery.headers),
            "body": delivery.body,
            "received_at": delivery.received_at,
            "state": DeliveryState.RECEIVED,
            "attempts": 0,
        }
        for delivery in unique.values()
    ]
    if not rows:
        return frozenset()
    statement = insert_for(session, Delivery).values(rows).on_conflict_do_nothing(index_elements=["id"])
    return frozenset(DeliveryId(row) for row in await session.scalars(statement.returning(Delivery.id)))


async def find_delivery(session: AsyncSession, delivery_id: DeliveryId) -> Delivery | None:
    return await session.get(Delivery, delivery_id)


async def find_oldest_unhandled(session: AsyncSession) -> datetime | None:
    """When the oldest delivery came in that nobody has dealt with yet."""
    oldest: datetime | None = await session.scalar(
        select(func.min(Delivery.received_at)).where(Delivery.state == DeliveryState.RECEIVED)
    )
    return oldest
