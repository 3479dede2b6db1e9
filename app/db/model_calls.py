"""What sandboxes, and the guardian for them, spend on the model: reserved before a call, settled after it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import case, func, insert, literal, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import ModelCall, Sandbox
from app.db.types import UtcTime
from app.domain.ids import SandboxId
from app.domain.states import SANDBOX_LIVE
from app.domain.supply import day_of

AGENT, GUARDIAN = "agent", "guardian"
"""Who asks the model with a sandbox's money."""


@dataclass(frozen=True)
class Settlement:
    """What one call came to. `status` is the upstream's, None when it never answered."""

    cost_usd: float
    status: int | None
    input_tokens: int = 0
    output_tokens: int = 0
    cache_tokens: int = 0


async def record_reservation(
    session: AsyncSession,
    sandbox_id: SandboxId,
    model: str,
    amount_usd: float,
    now: datetime,
    *,
    asked_by: str = AGENT,
) -> str | None:
    """Take `amount_usd` out of what remains; the call's id. None when it does not fit or the sandbox has ended.

    One guarded UPDATE, so two calls at once can't both take the last dollar.
    """
    taken = await session.scalar(
        update(Sandbox)
        .where(
            Sandbox.id == sandbox_id,
            Sandbox.state.in_(SANDBOX_LIVE),
            Sandbox.spent_usd + Sandbox.reserved_usd + amount_usd <= Sandbox.budget_usd,
        )
        .values(reserved_usd=Sandbox.reserved_usd + amount_usd, updated_at=now)
        .returning(Sandbox.id)
        .execution_options(synchronize_session=False)
    )
    if taken is None:
        return None
    call_id = f"call_{secrets.token_hex(12)}"
    await session.execute(
        insert(ModelCall).values(
            id=call_id,
            sandbox_id=sandbox_id,
            model=model,
            reserved_usd=amount_usd,
            asked_by=asked_by,
            started_at=now,
        )
    )
    return call_id


async def record_settlement(
    session: AsyncSession, call_id: str, settlement: Settlement, now: datetime
) -> bool:
    """Turn a reservation into what was spent, on the day of `now`. False when it had been settled before; then nothing
    changes.
    """
    call = (
        await session.execute(
            update(ModelCall)
            .where(ModelCall.id == call_id, ModelCall.settled_at.is_(None))
            .values(
                cost_usd=settlement.cost_usd,
                status=settlement.status,
                input_tokens=settlement.input_tokens,
                output_tokens=settlement.output_tokens,
                cache_tokens=settlement.cache_tokens,
                settled_at=now,
            )
            .returning(ModelCall.sandbox_id, ModelCall.reserved_usd)
            .execution_options(synchronize_session=False)
        )
    ).one_or_none()
    if call is None:
        return False
    # Sums of floats drift; a reservation never goes below nothing.
    rest = Sandbox.reserved_usd - call.reserved_usd
    is_first_of_day = func.coalesce(Sandbox.last_spent_at, Sandbox.created_at) < day_of(now)
    await session.execute(
        update(Sandbox)
        .where(Sandbox.id == call.sandbox_id)
        .values(
            spent_usd=Sandbox.spent_usd + settlement.cost_usd,
            spent_before_usd=case((is_first_of_day, Sandbox.spent_usd), else_=Sandbox.spent_before_usd),
            # Another process's clock may be ahead: its day is not taken back.
            last_spent_at=case(
                (Sandbox.last_spent_at > now, Sandbox.last_spent_at), else_=literal(now, UtcTime())
            ),
            reserved_usd=case((rest > 1e-9, rest), else_=0.0),
            updated_at=now,
        )
        .execution_options(synchronize_session=False)
    )
    return True


async def get_guardian_usd(session: AsyncSession, spec_id: str) -> float:
    """What the guardian's calls about the agents of a spec have cost, with what those under way may cost."""
    statement = (
        select(func.coalesce(func.sum(func.coalesce(ModelCall.cost_usd, ModelCall.reserved_usd)), 0.0))
        .join(Sandbox, Sandbox.id == ModelCall.sandbox_id)
        .where(Sandbox.spec_id == spec_id, ModelCall.asked_by == GUARDIAN)
    )
    return float((await session.execute(statement)).scalar_one())


async def list_unsettled(
    session: AsyncSession, started_before_at: datetime, limit: int = 100
) -> list[ModelCall]:
    """Calls whose process died before it could say what they cost: older than any call may take."""
    statement = (
        select(ModelCall)
        .where(ModelCall.settled_at.is_(None), ModelCall.started_at < started_before_at)
        .order_by(ModelCall.started_at)
        .limit(limit)
    )
    return list((await session.execute(statement)).scalars())
