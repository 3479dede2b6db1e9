"""Deliveries that failed: GitHub never sends one again by itself, so those we do not have are asked for, once each, and
once more when the webhook was still away (`app.domain.redelivery`).

https://docs.github.com/en/webhooks/using-webhooks/handling-failed-webhook-deliveries. Nothing is kept here but a time
that saves pages: what was asked for shows in GitHub's own listing as a redelivery under the same GUID, so neither a
kill nor another worker asks twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import structlog

from app.db.locks import claim_lock, passing_owner
from app.db.looks import find_known_deliveries
from app.domain.errors import Denied, Refused, RetryAt, refuses_credentials
from app.domain.ports import HookDelivery
from app.domain.redelivery import Missed, decide_missed
from worker.parts import Parts

log = structlog.get_logger("worker.missed_deliveries")

EVERY = timedelta(minutes=5)
LOOK_BACK = timedelta(days=3)
"""As far as GitHub keeps and redelivers them."""
OVERLAP = timedelta(hours=1)
"""Looked at again each time: an attempt shows only after it has ended."""
MAX_PAGES = 100
MAX_ASKED = 100
"""In one look; the next goes on."""
BURST = 10
"""So many are asked for at once, further ones a second apart: GitHub's rule for writes."""


class MissedDeliveries:
    def __init__(self, parts: Parts, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._parts = parts
        self._sleep = sleep
        self._seen_until: datetime | None = None
        """A cache that saves pages: without it the look goes back as far as it may."""

    async def look(self) -> int:
        """Ask for what is missing; how many. In one worker at a time, at most every five minutes: else 0.

        Raises OutsideError when GitHub does not answer; the next look starts over.
        """
        now = self._parts.clock()
        owner = passing_owner(self._parts.worker_id, now)
        if not await self._is_my_turn(owner, now, EVERY):
            return 0
        try:
            missed = await self._missed(await self._fetch_since(self._since(now)))
            if not await self._is_my_turn(owner, now, EVERY):
                return 0  # a long listing: another worker has begun meanwhile
            asked = missed.wanted[:MAX_ASKED]
            taken = await self._ask_for(asked)
        except RetryAt as later:
            await self._is_my_turn(owner, now, max(later.at - now, EVERY))
            raise
        self._seen_until = now if missed.open_since is None else missed.open_since
        return taken

    async def _is_my_turn(self, owner: str, now: datetime, hold: timedelta) -> bool:
        async with self._parts.db.write() as session:
            return await claim_lock(session, "missed-deliveries", owner, now, hold)

    async def _ask_for(self, deliveries: tuple[HookDelivery, ...]) -> int:
        """How many GitHub took. One that it refuses is in nobody's way, and still wanted at the next look."""
        taken = 0
        for position, delivery in enumerate(deliveries):
            if position >= BURST:
                await self._sleep(1)
            try:
                await self._parts.github.ensure_redelivered(delivery.delivery_id)
            except (Denied, Refused) as refused:
                if refuses_credentials(refused):
                    raise
                log.warning("delivery.redelivery_refused", delivery_id=delivery.guid, error=str(refused))
                continue
            taken += 1
            log.info("delivery.redelivery_requested", delivery_id=delivery.guid)
        return taken

    def _since(self, now: datetime) -> datetime:
        oldest = now - LOOK_BACK
        return oldest if self._seen_until is None else max(oldest, self._seen_until - OVERLAP)

    async def _fetch_since(self, since: datetime) -> list[HookDelivery]:
        found: list[HookDelivery] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._parts.github.fetch_hook_deliveries(cursor)
            found += [one for one in page.deliveries if one.delivered_at >= since]
            cursor = page.next_cursor
            if cursor is None or any(one.delivered_at < since for one in page.deliveries):
                return found
        log.warning("deliveries.listing_cut", pages=MAX_PAGES, since=since.isoformat())
        return found

    async def _missed(self, deliveries: list[HookDelivery]) -> Missed:
        failed = {one.guid for one in deliveries if not one.succeeded}
        async with self._parts.db.read() as session:
            stored = await find_known_deliveries(session, failed)
        return decide_missed(deliveries, stored)
