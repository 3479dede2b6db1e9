"""All SQL of the guardian's questions to a model: about whom, what it is shown, at whose cost, and what it said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Text, cast, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import insert_for
from app.db.guardian import MAX_EVENT_CHARS, is_at_work, lock_at_work
from app.db.model_calls import GUARDIAN, Settlement, get_guardian_usd, record_reservation, record_settlement
from app.db.models import Event, GuardianTrail, GuardianVerdict, Relay, Sandbox, Spec, Task
from app.domain.guardian import Seen
from app.domain.ids import SandboxId
from app.domain.verdict import SHOWN, Assignment


@dataclass(frozen=True)
class Due:
    """An agent that has called enough tools since a model was asked about it last."""

    sandbox_id: str
    spec_id: str
    last_seq: int
    tools: int
    asked_tools: int
    trail: Mapping[str, Any]
    assignment: Assignment


async def list_due_verdicts(session: AsyncSession, every: int, now: datetime, limit: int) -> list[Due]:
    """Those first that were not asked about for longest. Not those behind a relay: what they spend is known from their
    own reports only, so no call could be held to their budget.
    """
    asked = func.coalesce(GuardianVerdict.asked_tools, 0)
    statement = (
        select(
            Sandbox.id, Sandbox.spec_id, Sandbox.last_seq, Sandbox.tools, asked.label("asked_tools"),
            GuardianTrail.trail, Spec.title, Spec.body, Task.title.label("task_title"), Task.description,
        )
        .join(Spec, Spec.id == Sandbox.spec_id)
        .outerjoin(Task, Task.id == Sandbox.task_id)
        .outerjoin(GuardianTrail, GuardianTrail.sandbox_id == Sandbox.id)
        .outerjoin(GuardianVerdict, GuardianVerdict.sandbox_id == Sandbox.id)
        .outerjoin(Relay, Relay.sandbox_id == Sandbox.id)
        .where(
            *is_at_work(), Relay.sandbox_id.is_(None), Sandbox.tools - asked >= every,
            or_(GuardianVerdict.asking_until.is_(None), GuardianVerdict.asking_until < now),
        )
        .order_by(func.coalesce(GuardianVerdict.asked_at, Sandbox.created_at))
        .limit(limit)
    )  # fmt: skip
    return [
        Due(
            row.id, row.spec_id, row.last_seq, row.tools, row.asked_tools, row.trail or {},
            Assignment(row.title, row.body, row.task_title, row.description),
        )
        for row in await session.execute(statement)
    ]  # fmt: skip


async def list_shown(session: AsyncSession, due: Due, limit: int) -> list[Seen]:
    """The newest events of the kinds that tell what an agent does, oldest first."""
    statement = (
        select(Event.seq, Event.event_type, Event.event_data)
        .where(
            Event.sandbox_id == due.sandbox_id,
            Event.seq <= due.last_seq,
            Event.event_type.in_([one.value for one in SHOWN]),
            func.length(cast(Event.event_data, Text)) <= MAX_EVENT_CHARS,
        )
        .order_by(Event.seq.desc())
        .limit(limit)
    )
    rows = (await session.execute(statement)).all()
    return [Seen(row.seq, row.event_type, row.event_data) for row in reversed(rows)]


@dataclass(frozen=True)
class Price:
    """What one call may cost at most, and all of the guardian's for one spec."""

    model: str
    amount_usd: float
    budget_usd: float


async def claim_verdict(
    session: AsyncSession, due: Due, price: Price | None, now: datetime, until_at: datetime
) -> str | None:
    """The id of the one call about what this agent did up to now, its cost reserved with the sandbox's own money. None
    when another worker has asked, the agent no longer works, there is no money, or no `price` (there is no key): then
    it is not asked again before the agent has called as many tools once more.
    """
    spec = await lock_at_work(session, due.sandbox_id)
    if spec is None or not await _claim(session, due, now):
        return None
    if price is None:
        return None
    # Two sandboxes of one spec never both take what is left of its share.
    await session.execute(select(Spec.id).where(Spec.id == due.spec_id).with_for_update())
    if await get_guardian_usd(session, due.spec_id) + price.amount_usd > price.budget_usd:
        return None
    sandbox_id = SandboxId(due.sandbox_id)
    call_id = await record_reservation(
        session, sandbox_id, price.model, price.amount_usd, now, asked_by=GUARDIAN
    )
    if call_id is not None:
        await session.execute(
            update(GuardianVerdict)
            .where(GuardianVerdict.sandbox_id == due.sandbox_id)
            .values(call_id=call_id, asking_until=until_at)
        )
    return call_id


async def _claim(session: AsyncSession, due: Due, now: datetime) -> bool:
    table = GuardianVerdict.__table__
    asked: dict[str, Any] = {
        "asked_tools": due.tools, "asked_seq": due.last_seq, "asked_at": now, "call_id": None,
        "asking_until": None, "advice": "", "advised_at": None,
    }  # fmt: skip
    statement = (
        insert_for(session, table)
        .values(sandbox_id=due.sandbox_id, **asked)
        .on_conflict_do_update(
            index_elements=["sandbox_id"],
            set_=asked,
            where=(table.c.asked_tools == due.asked_tools)
            & or_(table.c.asking_until.is_(None), table.c.asking_until < now),
        )
        .returning(table.c.sandbox_id)
    )
    return (await session.execute(statement)).scalar_one_or_none() is not None


async def record_verdict(
    session: AsyncSession, call_id: str, settlement: Settlement, advice: str, now: datetime
) -> None:
    """What it cost and what it came to. What it says counts only as long as it is the newest call about its agent."""
    await record_settlement(session, call_id, settlement, now)
    await session.execute(
        update(GuardianVerdict)
        .where(GuardianVerdict.call_id == call_id)
        .values(asking_until=None, advice=advice, advised_at=now if advice else None)
        .execution_options(synchronize_session=False)
    )


async def forget_advice(session: AsyncSession, call_ids: Sequence[str]) -> None:
    """It was said, or something else was said before it."""
    if call_ids:
        await session.execute(
            update(GuardianVerdict)
            .where(GuardianVerdict.call_id.in_(call_ids))
            .values(advice="", advised_at=None)
            .execution_options(synchronize_session=False)
        )
