"""What intake makes of a delivery: the writes it asks for and whom they wake."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from sqlalchemy.ext.asyncio import AsyncSession

from app.db.specs import record_cancel
from app.domain.states import DeliveryState
from worker.parts import Parts

Write = Callable[[AsyncSession], Awaitable[None]]


@dataclass
class Verdict:
    """What became of a delivery, and what it wakes."""

    intent: str
    reason: str | None = None
    state: DeliveryState = DeliveryState.HANDLED
    writes: list[Write] = field(default_factory=list)
    spec_ids: list[str] = field(default_factory=list)
    effect_ids: list[str] = field(default_factory=list)
    rings: list[str] = field(default_factory=list)
    """Sandboxes whose poll for messages is to be woken."""


def cancel_specs(parts: Parts, intent: str, spec_ids: Sequence[str], reason: str) -> Verdict:
    """The verdict that asks for the end of live specs; the first reason given stays."""
    verdict = Verdict(intent, spec_ids=list(spec_ids))

    async def write(session: AsyncSession) -> None:
        for spec_id in spec_ids:
            await record_cancel(session, spec_id, reason, parts.clock())

    verdict.writes.append(write)
    return verdict
