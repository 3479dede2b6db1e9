"""Grouped commits of deliveries: many concurrent ones share a transaction (measured: four times the rate of one each,
with `synchronous=FULL`).
"""

from __future__ import annotations

import asyncio
from collections import deque

from sqlalchemy.exc import SQLAlchemyError

from app.db.deliveries import NewDelivery, record_deliveries
from app.domain.ids import DeliveryId
from app.observability.crashpoints import crashpoint
from app.observability.logging import get_logger
from app.queue.jobs import JobName
from app.web.parts import Parts

log = get_logger()

_GROUP_ROWS = 64
_GROUP_BYTES = 32_000_000
_WAITING_BYTES = 256_000_000


class NotStored(Exception):
    """The delivery is not known to be durable: answer 503."""


class _Group:
    """Deliveries that share a transaction. Who waits for it longer than `limit_s` is told that it is not stored."""

    def __init__(self, limit_s: float) -> None:
        loop = asyncio.get_running_loop()
        self.deliveries: list[NewDelivery] = []
        self.bytes = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._closed_at = loop.time() + limit_s / 8
        self._late = loop.call_later(limit_s, self.fail)

    def takes(self, size: int) -> bool:
        """Whether there is room for `size` bytes more, and whoever brings them has nearly the whole time to wait."""
        return (
            len(self.deliveries) < _GROUP_ROWS
            and self.bytes + size <= _GROUP_BYTES
            and asyncio.get_running_loop().time() < self._closed_at
        )

    def add(self, delivery: NewDelivery) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.deliveries.append(delivery)
        self.bytes += len(delivery.body)
        self._waiting.append(done)
        return done

    def succeed(self) -> int:
        """Tells everyone who still waits that theirs is stored; returns how many these are."""
        self._late.cancel()
        waiting = [done for done in self._waiting if not done.done()]
        for done in waiting:
            done.set_result(None)
        return len(waiting)

    def fail(self) -> None:
        self._late.cancel()
        for done in self._waiting:
            if not done.done():
                done.set_exception(NotStored())


class Committer:
    """`record` returns what is done when a delivery is durable. Rings for it afterwards, without anybody waiting for
    that.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._groups: deque[_Group] = deque()
        self._bytes = 0
        self._running = False
        self._stored = parts.metrics.deliveries.labels("stored")

    def record(self, delivery: NewDelivery) -> asyncio.Future[None]:
        """To be awaited: raises NotStored when the database refuses or takes longer than the limit.

        A transaction that is only slow may still commit after that: GitHub's redelivery is then a no-op. Not a
        coroutine, for each one around what is awaited costs a delivery a hundredth of its time. Raises NotStored when
        too much waits.
        """
        size = len(delivery.body)
        if self._bytes + size > _WAITING_BYTES:
            raise NotStored
        if not self._groups or not self._groups[-1].takes(size):
            self._groups.append(_Group(self._parts.limits.webhook_store_s))
        self._bytes += size
        done = self._groups[-1].add(delivery)
        if not self._running:
            self._running = True
            self._parts.spawn(self._commit_all())
        return done

    async def _commit_all(self) -> None:
        try:
            while self._groups:
                group = self._groups.popleft()
                self._bytes -= group.bytes
                await self._commit(group)
        finally:
            self._running = False

    async def _commit(self, group: _Group) -> None:
        crashpoint("delivery.before")
        try:
            new = await record_deliveries(self._parts.database, group.deliveries)
        except Exception as error:
            # Whatever it is, those who wait get their 503 now. What nobody foresaw is shown whole.
            foreseen = isinstance(error, SQLAlchemyError | OSError | TimeoutError)
            name, count = type(error).__name__, len(group.deliveries)
            log.warning("delivery.not_stored", error=name, count=count, exc_info=not foreseen)
            group.fail()
            return
        crashpoint("delivery.after")
        self._stored.inc(group.succeed())
        if new:
            # One ring and one line for a group: who hears the ring looks for everything that waits.
            log.info("delivery.recorded", delivery_id=new[0], count=len(new))
            self._parts.spawn(self._ring(new[0]))

    async def _ring(self, delivery_id: DeliveryId) -> None:
        await self._parts.doorbell.ring(JobName.INTAKE, delivery_id)
