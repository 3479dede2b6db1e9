"""Deliveries as operators see them, and taking one in again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import and_, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from app.db.models import Delivery
from app.domain.states import DeliveryState


async def list_deliveries(
    session: AsyncSession, limit: int, state: DeliveryState | None = None
) -> Sequence[Delivery]:
    """Newest first, without their bodies."""
    statement = select(Delivery).options(defer(Delivery.body, raiseload=True))
    if state is not None:
        statement = statement.where(Delivery.state == state)
    statement = statement.order_by(Delivery.received_at.desc(), Delivery.id.desc()).limit(limit)
    return (await session.scalars(statement)).all()


_AS_NEW: dict[str, Any] = {"state": DeliveryState.RECEIVED, "reason": None, "handled_at": None, "attempts": 0}


async def record_replay(session: AsyncSession, delivery_id: str, now: datetime) -> bool:
    """Back to `received`, as if it had just come in; False when there is no such delivery.

    Safe to do twice: what a delivery causes is keyed by the delivery or found before it is made. One that is being
    taken in at this moment is left alone until that claim lapses.
    """
    statement = (
        update(Delivery)
        .where(Delivery.id == delivery_id)
        .values(**_AS_NEW, not_before_at=now)
        .returning(Delivery.id)
    )
    return (await session.execute(statement)).scalar_one_or_none() is not None


async def list_ignored_comments(
    session: AsyncSession, repo_id: int, issue_number: int, since: datetime
) -> Sequence[Delivery]:
    """Deliveries about comments on that issue of which nothing came, of those received at or after `since`, in the order
    they came in.
    """
    statement = (
        select(Delivery)
        .where(
            Delivery.repo_id == repo_id,
            Delivery.issue_number == issue_number,
            Delivery.event == "issue_comment",
            Delivery.state == DeliveryState.IGNORED,
            Delivery.received_at >= since,
        )
        .order_by(Delivery.received_at, Delivery.id)
    )
    return (await session.scalars(statement)).all()


async def record_failed_replay(session: AsyncSession, since: datetime | None, now: datetime) -> list[str]:
    """The same for all that failed, of those received at or after `since`. Returns their GUIDs, oldest first."""
    failed = Delivery.state == DeliveryState.FAILED
    which = failed if since is None else and_(failed, Delivery.received_at >= since)
    statement = (
        update(Delivery)
        .where(which)
        .values(**_AS_NEW, not_before_at=now)
        .returning(Delivery.id, Delivery.received_at)
    )
    rows = (await session.execute(statement)).all()
    return [row.id for row in sorted(rows, key=lambda row: (row.received_at, row.id))]
