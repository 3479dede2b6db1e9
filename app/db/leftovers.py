"""Which sandboxes the database thinks a provider has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import and_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import Sandbox
from app.domain.leftovers import KnownSandbox


async def list_known_sandboxes(
    session: AsyncSession, provider: str, host_id: str | None, names: Sequence[str]
) -> Mapping[str, KnownSandbox]:
    """By name: those of this provider (and host, for a local one) that are not removed, and those called one of `names`."""
    here = and_(
        Sandbox.provider == provider, Sandbox.host_id == host_id if host_id else Sandbox.host_id.is_(None)
    )
    rows = await session.scalars(
        select(Sandbox).where(or_(and_(here, Sandbox.removed_at.is_(None)), Sandbox.provider_name.in_(names)))
    )
    return {
        row.provider_name: KnownSandbox(
            row.id, row.provider_name, row.state, row.ended_at, row.removed_at is not None
        )
        for row in rows
    }


async def find_newest_name(session: AsyncSession) -> str | None:
    """What the newest sandbox of any provider is called there; None before the first one."""
    name: str | None = await session.scalar(
        select(Sandbox.provider_name).order_by(Sandbox.created_at.desc(), Sandbox.id.desc()).limit(1)
    )
    return name


async def record_removed(session: AsyncSession, provider_name: str, now: datetime) -> None:
    """Nothing when it is noted already, or when there is no such sandbox."""
    await session.execute(
        update(Sandbox)
        .where(Sandbox.provider_name == provider_name, Sandbox.removed_at.is_(None))
        .values(removed_at=now, updated_at=now)
    )
