"""All SQL about sandboxes whose calls a worker carries: which they are, and which worker it is."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from app.db.dialect import insert_for
from app.db.models import Relay, Sandbox
from app.domain.ids import SandboxId
from app.domain.states import SANDBOX_LIVE


@dataclass(frozen=True)
class RelayedSandbox:
    """`name` is what the provider knows it by."""

    sandbox_id: SandboxId
    name: str


async def record_relay(session: AsyncSession, sandbox_id: str, now: datetime) -> None:
    """From now on somebody must carry for it. Again is fine."""
    await session.execute(
        insert_for(session, Relay)
        .values(sandbox_id=sandbox_id, owner=None, until_at=now, created_at=now)
        .on_conflict_do_nothing()
    )


def find_relayed(session: Session, sandbox_ids: Collection[str]) -> set[str]:
    """Those of them that can't reach the app."""
    if not sandbox_ids:
        return set()
    return set(session.scalars(select(Relay.sandbox_id).where(Relay.sandbox_id.in_(sandbox_ids))))


async def list_uncarried(session: AsyncSession, now: datetime, limit: int) -> Sequence[RelayedSandbox]:
    """Live ones that no worker carries for, longest first."""
    statement = (
        select(Sandbox.id, Sandbox.provider_name)
        .join(Relay, Relay.sandbox_id == Sandbox.id)
        .where(Relay.until_at <= now, Sandbox.state.in_(SANDBOX_LIVE), Sandbox.removed_at.is_(None))
        .order_by(Relay.until_at)
        .limit(limit)
    )
    return [RelayedSandbox(SandboxId(row[0]), row[1]) for row in await session.execute(statement)]


async def claim_relay(
    session: AsyncSession, sandbox_id: str, owner: str, now: datetime, hold: timedelta
) -> bool:
    """True while `owner` carries for it; calling again renews that. False also when the sandbox has ended."""
    live = select(Sandbox.id).where(Sandbox.id == sandbox_id, Sandbox.state.in_(SANDBOX_LIVE))
    statement = (
        update(Relay)
        .where(
            Relay.sandbox_id == sandbox_id, or_(Relay.until_at <= now, Relay.owner == owner), live.exists()
        )
        .values(owner=owner, until_at=now + hold)
        .returning(Relay.sandbox_id)
        .execution_options(synchronize_session=False)
    )
    return (await session.execute(statement)).scalar_one_or_none() is not None


async def release_relay(session: AsyncSession, sandbox_id: str, owner: str, now: datetime) -> None:
    """Another worker may carry at once."""
    await session.execute(
        update(Relay)
        .where(Relay.sandbox_id == sandbox_id, Relay.owner == owner)
        .values(until_at=now)
        .execution_options(synchronize_session=False)
    )
