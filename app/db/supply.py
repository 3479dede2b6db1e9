"""All SQL about who may start a sandbox: what is taken, and who waits."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, case, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import insert_for
from app.db.models import Lock, Sandbox, Spec
from app.domain.states import SANDBOX_LIVE, SPEC_LIVE, SpecState
from app.domain.supply import Shortage, Taken, Waiting

STALE = timedelta(minutes=5)
"""Whoever has not asked again for so long would not take a place that is free: it goes to the next."""
_LOCK = "supply"


async def lock_supply(session: AsyncSession, now: datetime) -> None:
    """Whoever asks meanwhile waits for this transaction's end, so that two never take the last place."""
    await session.execute(
        insert_for(session, Lock).values(name=_LOCK, owner="", until_at=now).on_conflict_do_nothing()
    )
    await session.execute(update(Lock).where(Lock.name == _LOCK).values(until_at=now))


async def list_waiting_specs(session: AsyncSession, now: datetime) -> list[Waiting]:
    """Those that wait for a free sandbox and ask for it regularly."""
    statement = select(Spec.id, Spec.repo_id, Spec.queued_at).where(
        Spec.queued_at.is_not(None),
        Spec.queue_reason == Shortage.SANDBOXES.value,
        Spec.state.in_(SPEC_LIVE - {SpecState.PAUSED}),
        Spec.cancel_asked_at.is_(None),
        Spec.updated_at >= now - STALE,
    )
    return [
        Waiting(row.id, row.repo_id, row.queued_at)
        for row in await session.execute(statement)
        if row.queued_at is not None
    ]


async def get_taken(session: AsyncSession, spec: Spec, now: datetime) -> Taken:
    """Live sandboxes of all repositories, and what the spec, and its repository today (UTC), have spent or may spend
    with the sandboxes they have.
    """
    live = and_(Sandbox.removed_at.is_(None), Sandbox.state.in_(SANDBOX_LIVE))
    counted = await session.execute(
        select(Spec.repo_id, func.count())
        .select_from(Sandbox)
        .join(Spec, Spec.id == Sandbox.spec_id)
        .where(live)
        .group_by(Spec.repo_id)
    )
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    of_today = and_(Spec.repo_id == spec.repo_id, or_(Sandbox.created_at >= today, live))
    return Taken(
        sandboxes={row[0]: row[1] for row in counted},
        spec_usd=await _taken_usd(session, Spec.id == spec.id),
        day_usd=await _taken_usd(session, of_today),
    )


async def _taken_usd(session: AsyncSession, which: ColumnElement[bool]) -> float:
    """An ended sandbox costs what it spent, a live one what it may still spend."""
    ends = case(
        (and_(Sandbox.state.in_(SANDBOX_LIVE), Sandbox.budget_usd > Sandbox.spent_usd), Sandbox.budget_usd),
        else_=Sandbox.spent_usd,
    )
    statement = (
        select(func.coalesce(func.sum(ends), 0.0))
        .select_from(Sandbox)
        .join(Spec, Spec.id == Sandbox.spec_id)
        .where(which)
    )
    return float((await session.execute(statement)).scalar_one())
