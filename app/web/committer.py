"""Grouped commits of deliveries: many concurrent ones share a transaction (measured: four times the rate of one each,
with `synchronous=FULL`).
"""

from __future__ import annotations

import asyncio

from sqlalchemy.exc import SQLAlchemyError

from app.db.deliveries import NewDelivery, record_deliveries
from app.domain.ids import DeliveryId
from app.observability.crashpoints import crashpoint
from app.observability.logging import get_logger
from app.queue.jobs import JobName
from app.web.deadlines import Deadlines
from app.web.parts import Parts

log = get_logger()

_GROUP_ROWS = 64
_GROUP_BYTES = 32_000_000
_WAITING_BYTES = 256_000_000


class NotStored(Exception):
    """The delivery is not known to be durable: answer 503."""


class Committer:
    """`record` returns when a delivery is durable. Rings for it afterwards, without anybody waiting for that."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._storing = Deadlines(parts.limits.webhook_store_s)
        self._waiting: list[tuple[NewDelivery, asyncio.Future[None]]] = []
        self._bytes = 0
        self._running = False

    async def record(self, delivery: NewDelivery) -> None:
        """Raises NotStored when the database refuses or takes longer than the limit.

        A transaction that is only slow may still commit after that: GitHub's redelivery is then a no-op.
        """
        if self._bytes + len(delivery.packed) > _WAITING_BYTES:
            raise NotStored
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((delivery, done))
        self._bytes += len(delivery.packed)
        if not self._running:
            self._running = True
            self._parts.spawn(self._commit_all())
        try:
            await self._storing.wait_for(done)
        except TimeoutError:
            raise NotStored from None

    async def _commit_all(self) -> None:
        try:
            while self._waiting:
                group = self._next_group()
                self._bytes -= sum(len(delivery.packed) for delivery, _ in group)
                await self._commit([delivery for delivery, _ in group], [done for _, done in group])
        finally:
            self._running = False

    def _next_group(self) -> list[tuple[NewDelivery, asyncio.Future[None]]]:
        size = count = 0
        for delivery, _ in self._waiting:
            if count and (count == _GROUP_ROWS or size + len(delivery.packed) > _GROUP_BYTES):
                break
            size += len(delivery.packed)
            count += 1
        group, self._waiting = self._waiting[:count], self._waiting[count:]
        return group

    async def _commit(self, deliveries: list[NewDelivery], waiters: list[asyncio.Future[None]]) -> None:
        crashpoint("delivery.before")
        try:
            new = await record_deliveries(self._parts.database, deliveries)
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            log.warning("delivery.not_stored", error=type(error).__name__, count=len(deliveries))
            for done in waiters:
                if not done.done():
                    done.set_exception(NotStored())
            return
        crashpoint("delivery.after")
        for done in waiters:
            if not done.done():
                done.set_result(None)
        if new:
            # One ring and one line for a group: who hears the ring looks for everything that waits.
            log.info("delivery.recorded", delivery_id=new[0], count=len(new))
            self._parts.spawn(self._ring(new[0]))

    async def _ring(self, delivery_id: DeliveryId) -> None:
        await self._parts.doorbell.ring(JobName.INTAKE, delivery_id)
