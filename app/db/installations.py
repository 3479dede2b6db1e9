"""All SQL about installations and repositories, and the pace of writes to them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import insert_for
from app.db.models import Installation, Repository

WRITE_GAP = timedelta(seconds=1)
"""GitHub asks for a second between writes (docs: best practices for using the REST API)."""

BURST = timedelta(seconds=8)
"""How far a spec's own writes may run ahead of that average, so that a start is quick."""


async def _upsert(session: AsyncSession, table: Any, values: dict[str, Any]) -> None:
    statement = insert_for(session, table).values(values)
    changed = {key: value for key, value in values.items() if key != "id"}
    await session.execute(statement.on_conflict_do_update(index_elements=["id"], set_=changed))


async def record_installation(
    session: AsyncSession, installation_id: int, now: datetime, **values: Any
) -> None:
    await _upsert(session, Installation, {"id": installation_id, "updated_at": now, **values})


async def record_repository(session: AsyncSession, values: dict[str, Any], now: datetime) -> None:
    """`values` has id, installation_id, owner, name, and what else the payload told."""
    await _upsert(session, Repository, {**values, "state": "active", "updated_at": now})


async def find_repository(session: AsyncSession, repo_id: int) -> Repository | None:
    return (await session.execute(select(Repository).where(Repository.id == repo_id))).scalar_one_or_none()


async def find_installation(session: AsyncSession, installation_id: int) -> Installation | None:
    statement = select(Installation).where(Installation.id == installation_id)
    return (await session.execute(statement)).scalar_one_or_none()


async def set_installation_state(
    session: AsyncSession, installation_id: int, state: str, now: datetime
) -> None:
    await session.execute(
        update(Installation).where(Installation.id == installation_id).values(state=state, updated_at=now)
    )


async def set_repository_state(session: AsyncSession, repo_id: int, state: str, now: datetime) -> None:
    await session.execute(
        update(Repository).where(Repository.id == repo_id).values(state=state, updated_at=now)
    )


async def claim_write(
    session: AsyncSession, installation_id: int, now: datetime, burst: timedelta
) -> datetime | None:
    """Take one write's place in the installation's pace. None = go; a time = not before it (nothing taken).

    `next_write_at` is the time at which the installation would be back to one write per second; it may run ahead of
    the clock by `burst`.
    """
    found = await find_installation(session, installation_id)
    if found is None:
        await record_installation(session, installation_id, now)
        found = await find_installation(session, installation_id)
    if found is None:
        return now + WRITE_GAP
    if found.not_before_at is not None and found.not_before_at > now:
        return found.not_before_at
    ahead = max(found.next_write_at or now, now)
    if ahead - now > burst:
        return ahead - burst
    taken = (
        update(Installation)
        .where(
            Installation.id == installation_id,
            Installation.next_write_at.is_not_distinct_from(found.next_write_at),
        )
        .values(next_write_at=ahead + WRITE_GAP)
        .returning(Installation.id)
    )
    if (await session.execute(taken)).scalar_one_or_none() is None:
        return now + timedelta(milliseconds=50)
    return None


async def record_pause(session: AsyncSession, installation_id: int, until_at: datetime) -> None:
    """GitHub asked for a pause: nothing goes to this installation before `until_at`, also after a restart. A later
    time stays.
    """
    await session.execute(
        update(Installation)
        .where(
            Installation.id == installation_id,
            or_(Installation.not_before_at.is_(None), Installation.not_before_at < until_at),
        )
        .values(not_before_at=until_at)
    )
