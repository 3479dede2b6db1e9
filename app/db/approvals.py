"""An approval of a plan: a record of who said yes to which text."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import Spec
from app.domain.replies import Approval
from app.domain.states import SPEC_LIVE, SpecState

SHORTEST_HASH = 6


async def record_approval(
    session: AsyncSession, spec_id: str, plan_hash: str | None, login: str, now: datetime
) -> Approval:
    """Note that `login`, who may write, approves the plan with that hash (or its beginning); None = the one shown.

    Only the plan that people see can be approved, and only while it is the newest: else nothing is set, and the next
    step shows the newest. A second approval of the same plan changes nothing.
    """
    spec: Spec | None = await session.scalar(
        select(Spec).where(Spec.id == spec_id).with_for_update().execution_options(populate_existing=True)
    )
    if spec is None or spec.state not in SPEC_LIVE or spec.cancel_asked_at is not None:
        return Approval.NOT_AWAITED
    if spec.approved_hash is not None and spec.approved_hash == spec.plan_hash:
        return Approval.ALREADY if _names(plan_hash, spec.approved_hash) else Approval.STALE
    if spec.state is not SpecState.AWAITING_APPROVAL:
        return Approval.NOT_AWAITED
    shown = spec.plan_shown_hash
    spec.version, spec.updated_at = spec.version + 1, now
    if shown is None or shown != spec.plan_hash or not _names(plan_hash, shown):
        approval = Approval.STALE
    else:
        spec.approved_hash, spec.approved_by, approval = shown, login[:100], Approval.APPROVED
    await session.flush()
    return approval


def _names(given: str | None, whole: str) -> bool:
    return given is None or (len(given) >= SHORTEST_HASH and whole.startswith(given.lower()))
