"""SQL of what people ask of live work between its steps: a pause, going on, another base."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import case, func, literal, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.guardian import settle_interventions
from app.db.models import Spec
from app.domain.states import SPEC_LIVE, SpecState


async def record_pause(session: AsyncSession, spec_id: str, by: str | None, now: datetime) -> bool:
    """Ask for a pause of live work; `by` is a login, None for Issuewright itself. Again changes nothing. False when it
    has ended or is ending.
    """
    statement = (
        update(Spec)
        .where(Spec.id == spec_id, Spec.state.in_(SPEC_LIVE), Spec.cancel_asked_at.is_(None))
        .values(
            pause_asked_at=func.coalesce(Spec.pause_asked_at, literal(now, Spec.pause_asked_at.type)),
            pause_asked_by=case(
                (Spec.pause_asked_at.is_(None), literal(by, Spec.pause_asked_by.type)),
                else_=Spec.pause_asked_by,
            ),
            version=Spec.version + 1,
            updated_at=now,
        )
        .returning(Spec.id)
    )
    return (await session.execute(statement)).scalar_one_or_none() is not None


async def record_resume(session: AsyncSession, spec_id: str, now: datetime) -> bool:
    """Let paused work go on, or work that is being paused. False when it is neither."""
    statement = (
        update(Spec)
        .where(Spec.id == spec_id, Spec.state.in_(SPEC_LIVE), Spec.pause_asked_at.is_not(None))
        .values(pause_asked_at=None, version=Spec.version + 1, due_at=now, updated_at=now)
        .returning(Spec.id)
    )
    if (await session.execute(statement)).scalar_one_or_none() is None:
        return False
    await settle_interventions(session, spec_id, now)
    return True


async def record_base(session: AsyncSession, spec_id: str, branch: str, now: datetime) -> bool:
    """The base that the branch is to be made on, also by a retry. False when it is made, or the work is completed."""
    statement = (
        update(Spec)
        .where(Spec.id == spec_id, Spec.state != SpecState.COMPLETED, Spec.start_sha.is_(None))
        .values(base_asked=branch, version=Spec.version + 1, updated_at=now)
        .returning(Spec.id)
    )
    return (await session.execute(statement)).scalar_one_or_none() is not None
