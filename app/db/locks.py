"""Named leases and long operations, by the same statement that claims a spec."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import insert_for
from app.db.models import Lock, Operation


async def claim_lock(session: AsyncSession, name: str, owner: str, now: datetime, hold: timedelta) -> bool:
    """True while `owner` holds the lock; calling again renews it."""
    await session.execute(
        insert_for(session, Lock).values(name=name, owner=owner, until_at=now).on_conflict_do_nothing()
    )
    statement = (
        update(Lock)
        .where(Lock.name == name, or_(Lock.until_at <= now, Lock.owner == owner))
        .values(owner=owner, until_at=now + hold)
        .returning(Lock.name)
    )
    return (await session.execute(statement)).scalar_one_or_none() is not None


def passing_owner(worker_id: str, now: datetime) -> str:
    """An owner for one time only, so that the lock lapses with time and not even the same worker renews it by asking:
    for what is to happen once in a while, whoever does it.
    """
    return f"{worker_id[:40]}@{now:%H%M%S%f}"


async def find_operation(session: AsyncSession, name: str) -> Operation | None:
    return (await session.execute(select(Operation).where(Operation.name == name))).scalar_one_or_none()


async def claim_operation(
    session: AsyncSession, name: str, owner: str, now: datetime, hold: timedelta
) -> bool:
    """Start an operation unless it runs already (its lease has not lapsed). True = it is ours to run now."""
    inserted = await session.execute(
        insert_for(session, Operation)
        .values(name=name, state="started", owner=owner, attempts=1, started_at=now, until_at=now + hold)
        .on_conflict_do_nothing()
        .returning(Operation.name)
    )
    if inserted.scalar_one_or_none() is not None:
        return True
    statement = (
        update(Operation)
        .where(Operation.name == name, Operation.state == "started", Operation.until_at <= now)
        .values(owner=owner, until_at=now + hold, attempts=Operation.attempts + 1)
        .returning(Operation.name)
    )
    return (await session.execute(statement)).scalar_one_or_none() is not None


async def renew_operation(session: AsyncSession, name: str, owner: str, until_at: datetime) -> bool:
    statement = (
        update(Operation)
        .where(Operation.name == name, Operation.owner == owner, Operation.state == "started")
        .values(until_at=until_at)
        .returning(Operation.name)
    )
    return (await session.execute(statement)).scalar_one_or_none() is not None


async def settle_operation(
    session: AsyncSession, name: str, owner: str, state: str, detail: str | None
) -> None:
    await session.execute(
        update(Operation)
        .where(Operation.name == name, Operation.owner == owner, Operation.state == "started")
        .values(state=state, detail=detail)
    )


async def forget_operation(session: AsyncSession, name: str) -> None:
    await session.execute(delete(Operation).where(Operation.name == name, Operation.state != "started"))


async def get_wait_start(session: AsyncSession, name: str, now: datetime) -> datetime:
    """Since when that has been waited for: since now when nobody has asked before. `forget_operation` ends it."""
    await session.execute(
        insert_for(session, Operation)
        .values(name=name, state="waiting", owner="", attempts=1, started_at=now, until_at=now)
        .on_conflict_do_nothing()
    )
    statement = select(Operation.started_at).where(Operation.name == name)
    return (await session.execute(statement)).scalar_one()
