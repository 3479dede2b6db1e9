"""All SQL about the pace of writes to an installation: the place of each, the last hour's count, GitHub's pauses."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.installations import find_installation, record_installation
from app.db.models import GitHubWrite, Installation, Spec
from app.domain.pace import (
    BACKGROUND_SHARE,
    HOUR,
    MINUTE,
    ROOMS,
    SHARE_PER_HOUR,
    WRITE_GAP,
    Pressure,
    Urgency,
    decide_background_free,
    decide_turn,
    decide_write,
)
from app.domain.states import SpecState

_AT_WORK = frozenset({SpecState.QUEUED, SpecState.PLANNING, SpecState.IMPLEMENTING})
"""States in which the status comment keeps changing; a spec that waits for people is quiet."""

_TURNS = {
    Urgency.BACKGROUND: Installation.background_turn_at,
    Urgency.WORK: Installation.work_turn_at,
    Urgency.FINAL: Installation.final_turn_at,
}


async def claim_write(
    session: AsyncSession, installation_id: int, now: datetime, urgency: Urgency
) -> datetime | None:
    """Take one write's place in the installation's pace. None = go; a time = not before it (nothing taken)."""
    found = await find_installation(session, installation_id)
    if found is None:
        await record_installation(session, installation_id, now)
        found = await find_installation(session, installation_id)
    if found is None:
        return now + WRITE_GAP
    if found.not_before_at is not None and found.not_before_at > now:
        return found.not_before_at
    hour_free_at = await _hour_free_at(session, installation_id, now, urgency)
    free_at, next_write_at = decide_write(now, found.next_write_at, urgency, hour_free_at)
    if next_write_at is None:
        return free_at
    taken = (
        update(Installation)
        .where(
            Installation.id == installation_id,
            Installation.next_write_at.is_not_distinct_from(found.next_write_at),
        )
        .values(next_write_at=next_write_at)
        .returning(Installation.id)
    )
    if (await session.execute(taken)).scalar_one_or_none() is None:
        return now + timedelta(milliseconds=50)
    session.add(
        GitHubWrite(
            installation_id=installation_id, place_at=next_write_at, written_at=now,
            background=urgency is Urgency.BACKGROUND,
        )
    )  # fmt: skip
    await session.execute(
        delete(GitHubWrite).where(
            GitHubWrite.installation_id == installation_id, GitHubWrite.written_at <= now - HOUR
        )
    )
    return None


async def take_turn(
    session: AsyncSession, installation_id: int, urgency: Urgency, free_at: datetime
) -> datetime:
    """When a caller that `claim_write` put off until `free_at` comes back. An edit of progress keeps no place."""
    if urgency not in _TURNS:
        return free_at
    column = _TURNS[urgency]
    found = select(column).where(Installation.id == installation_id)
    turn_at = (await session.execute(found)).scalar_one_or_none()
    mine, following = decide_turn(free_at, turn_at)
    await session.execute(
        update(Installation).where(Installation.id == installation_id).values({column: following})
    )
    return mine


async def _hour_free_at(
    session: AsyncSession, installation_id: int, now: datetime, urgency: Urgency
) -> datetime | None:
    """When the last hour has room again for this urgency; None while it has."""

    async def free_at(per_hour: int, *which: ColumnElement[bool]) -> datetime | None:
        """When the write that fills it (of `which`) will be an hour old."""
        statement = (
            select(GitHubWrite.written_at)
            .where(
                GitHubWrite.installation_id == installation_id, GitHubWrite.written_at > now - HOUR, *which
            )
            .order_by(GitHubWrite.written_at.desc())
            .offset(per_hour - 1)
            .limit(1)
        )
        filling = (await session.execute(statement)).scalar_one_or_none()
        return filling + HOUR if filling is not None else None

    room = await free_at(ROOMS[urgency].per_hour)
    if room is None or urgency is not Urgency.BACKGROUND:
        return room
    share = await free_at(BACKGROUND_SHARE, GitHubWrite.background.is_(True))
    return decide_background_free(room, share, await free_at(SHARE_PER_HOUR))


async def get_pressure(session: AsyncSession, installation_id: int, now: datetime) -> Pressure:
    """What goes on in the installation right now."""

    async def count(since: datetime) -> int:
        statement = select(func.count()).where(
            GitHubWrite.installation_id == installation_id, GitHubWrite.written_at > since
        )
        return (await session.execute(statement)).scalar_one()

    at_work = select(func.count()).where(
        Spec.concluded_at.is_(None), Spec.installation_id == installation_id, Spec.state.in_(_AT_WORK)
    )
    live = (await session.execute(at_work)).scalar_one()
    return Pressure(live, await count(now - MINUTE), await count(now - HOUR))


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
