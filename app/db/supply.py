"""All SQL about who may start a sandbox: what is taken, and who waits."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, SQLColumnExpression, and_, case, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import insert_for
from app.db.models import Lock, Process, Sandbox, Spec
from app.domain.states import SANDBOX_LIVE, SPEC_LIVE, SpecState
from app.domain.supervision import REACHABLE
from app.domain.supply import FOR_A_SANDBOX, FOR_THE_DAY, Shortage, Spent, Taken, Waiting, day_of

STALE = timedelta(minutes=5)
"""Whoever has not asked again for so long would not take a place that is free: it goes to the next. While no worker was
there nobody could ask, and that takes nobody's place.
"""
_LOCK = "supply"


async def lock_supply(session: AsyncSession, now: datetime) -> None:
    """Whoever asks meanwhile waits for this transaction's end, so that two never take the last place."""
    await session.execute(
        insert_for(session, Lock).values(name=_LOCK, owner="", until_at=now).on_conflict_do_nothing()
    )
    await session.execute(update(Lock).where(Lock.name == _LOCK).values(until_at=now))


async def list_waiting_specs(session: AsyncSession, now: datetime) -> list[Waiting]:
    """Those that wait for a free sandbox or for their repository's money, and ask for it regularly."""
    workers = select(func.min(Process.started_at)).where(
        Process.kind == "worker", Process.beat_at >= now - REACHABLE
    )
    working_since_at = await session.scalar(workers)
    could_ask = working_since_at is not None and working_since_at <= now - STALE
    statement = select(Spec.id, Spec.repo_id, Spec.queued_at, Spec.queue_reason).where(
        Spec.queued_at.is_not(None),
        Spec.queue_reason.in_([one.value for one in FOR_A_SANDBOX | FOR_THE_DAY]),
        Spec.state.in_(SPEC_LIVE - {SpecState.PAUSED}),
        Spec.cancel_asked_at.is_(None),
        *([Spec.updated_at >= now - STALE] if could_ask else []),
    )
    return [
        Waiting(row.id, row.repo_id, row.queued_at, Shortage(row.queue_reason))
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
    spent_today = func.coalesce(Sandbox.last_spent_at, Sandbox.created_at) >= day_of(now)
    of_today = case((spent_today, Sandbox.spent_usd - Sandbox.spent_before_usd), else_=0.0)
    concerned = and_(Spec.repo_id == spec.repo_id, or_(spent_today, live, Sandbox.reserved_usd > 0))
    return Taken(
        sandboxes={row[0]: row[1] for row in counted},
        spec=await _get_spent(session, Spec.id == spec.id, Sandbox.spent_usd),
        day=await _get_spent(session, concerned, of_today),
    )


async def _get_spent(
    session: AsyncSession, which: ColumnElement[bool], settled: SQLColumnExpression[float]
) -> Spent:
    """An ended sandbox has spent what it may still be charged for, too: calls of its agent that nobody has settled yet.
    A live one holds all that is left of its budget.
    """
    is_live = Sandbox.state.in_(SANDBOX_LIVE)
    spent = case((is_live, settled), else_=settled + Sandbox.reserved_usd)
    left = Sandbox.budget_usd - Sandbox.spent_usd
    held = case((and_(is_live, left > 0), left), else_=0.0)
    statement = (
        select(func.coalesce(func.sum(spent), 0.0), func.coalesce(func.sum(held), 0.0))
        .select_from(Sandbox)
        .join(Spec, Spec.id == Sandbox.spec_id)
        .where(which)
    )
    usd, held_usd = (await session.execute(statement)).one()
    return Spent(float(usd), float(held_usd))
