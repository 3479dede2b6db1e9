"""All SQL by which a worker lets go of what a dead one still holds, without waiting for its leases to lapse."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import Operation, Spec


async def list_holders(session: AsyncSession, now: datetime) -> set[str]:
    """Ids of the workers that hold a spec's lease or run an operation now."""
    specs = select(Spec.lease_owner).where(Spec.lease_owner.is_not(None), Spec.lease_until_at > now)
    operations = select(Operation.owner).where(Operation.state == "started", Operation.until_at > now)
    found = {*(await session.execute(specs)).scalars(), *(await session.execute(operations)).scalars()}
    return {owner for owner in found if owner is not None}


async def release_holder(session: AsyncSession, owner: str, now: datetime) -> None:
    """End the leases of a worker that is known to be dead. The fence still grows with the next claim, so even a wrong
    judgement lets nobody write twice.
    """
    await session.execute(update(Spec).where(Spec.lease_owner == owner).values(lease_until_at=now))
    await session.execute(
        update(Operation).where(Operation.owner == owner, Operation.state == "started").values(until_at=now)
    )
