"""Reservations at the model gateway whose web process was killed: counted as spent, since nobody knows better."""

from __future__ import annotations

from datetime import timedelta

import structlog

from app.db.model_calls import Settlement, list_unsettled, record_settlement
from worker.parts import Parts

log = structlog.get_logger("worker.reservations")

LONGEST_CALL = timedelta(minutes=20)


async def settle_left_reservations(parts: Parts) -> int:
    """Returns how many were settled. Twice is harmless: a settled call stays as it is."""
    now = parts.clock()
    async with parts.db.write() as session:
        calls = await list_unsettled(session, now - LONGEST_CALL)
        for call in calls:
            await record_settlement(session, call.id, Settlement(call.reserved_usd, None), now)
            log.warning("reservation.settled", sandbox_id=call.sandbox_id, cost_usd=call.reserved_usd)
    return len(calls)
