"""All SQL by which the worker takes deliveries in."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import Delivery
from app.domain.states import DeliveryState

CLAIM = timedelta(seconds=15)
"""Handled twice is harmless, since only one settles it; so what a killed worker held comes back soon."""


def _waiting(now: datetime) -> tuple[Any, ...]:
    return (
        Delivery.state == DeliveryState.RECEIVED,
        or_(Delivery.not_before_at.is_(None), Delivery.not_before_at <= now),
        or_(Delivery.claimed_until_at.is_(None), Delivery.claimed_until_at <= now),
    )


async def list_waiting(session: AsyncSession, now: datetime, limit: int = 100) -> list[str]:
    statement = select(Delivery.id).where(*_waiting(now)).order_by(Delivery.received_at).limit(limit)
    return list((await session.execute(statement)).scalars())


async def claim_delivery(session: AsyncSession, delivery_id: str, now: datetime) -> Delivery | None:
    statement = (
        update(Delivery)
        .where(Delivery.id == delivery_id, *_waiting(now))
        .values(claimed_until_at=now + CLAIM, attempts=Delivery.attempts + 1)
        .returning(Delivery)
    )
    return (await session.execute(statement)).scalar_one_or_none()


async def settle_delivery(
    session: AsyncSession, delivery_id: str, state: DeliveryState, now: datetime, **values: Any
) -> bool:
    """Say what became of it, once. False when another worker already did (its writes stand, ours roll back)."""
    statement = (
        update(Delivery)
        .where(Delivery.id == delivery_id, Delivery.state == DeliveryState.RECEIVED)
        .values(state=state, handled_at=now, claimed_until_at=None, **values)
        .returning(Delivery.id)
    )
    return (await session.execute(statement)).scalar_one_or_none() is not None


async def defer_delivery(session: AsyncSession, delivery_id: str, at: datetime, reason: str) -> None:
    await session.execute(
        update(Delivery)
        .where(Delivery.id == delivery_id, Delivery.state == DeliveryState.RECEIVED)
        .values(not_before_at=at, claimed_until_at=None, reason=reason)
    )
