"""Which worker carries for which sandbox: each for those that nobody carries for, under a short lease that it renews."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.db.relay import RelayedSandbox, claim_relay, list_uncarried, release_relay
from worker.parts import Parts
from worker.supervise.carrier import Carrier

log = structlog.get_logger("worker.relay")

EVERY_S = 0.5
HOLD = timedelta(seconds=15)
RENEW_S = 5.0
AT_ONCE = 200
"""Sandboxes that one worker carries for."""


class Relays:
    """Runs until cancelled. Two workers that carry for the same sandbox for a moment do nothing twice."""

    def __init__(self, parts: Parts, make: Callable[[RelayedSandbox], Carrier], scratch: Path) -> None:
        self._parts = parts
        self._make = make
        self._scratch = scratch
        self._carrying: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        try:
            while True:
                try:
                    await self.look()
                except (SQLAlchemyError, OSError) as error:
                    log.warning("relay.failed", error=type(error).__name__)
                await asyncio.sleep(EVERY_S)
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Lets go of everything; another worker may take it on at once."""
        tasks = list(self._carrying.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def look(self) -> None:
        """Takes on what nobody carries for."""
        room = AT_ONCE - len(self._carrying)
        if room <= 0:
            return
        async with self._parts.db.read() as session:
            waiting = await list_uncarried(session, self._parts.clock(), room)
        for one in waiting:
            if one.sandbox_id not in self._carrying and await self._claim(one):
                task = asyncio.create_task(self._carry(one))
                self._carrying[one.sandbox_id] = task
                task.add_done_callback(lambda _task, key=one.sandbox_id: self._carrying.pop(key, None))  # type: ignore[misc]

    async def _claim(self, one: RelayedSandbox) -> bool:
        async with self._parts.db.write() as session:
            return await claim_relay(
                session, one.sandbox_id, self._parts.worker_id, self._parts.clock(), HOLD
            )

    async def _carry(self, one: RelayedSandbox) -> None:
        """As long as the lease is ours and the sandbox lives."""
        await asyncio.to_thread(self._clear, one.sandbox_id)
        log.info("relay.taken_on", sandbox_id=one.sandbox_id)
        work = asyncio.create_task(self._make(one).run())
        try:
            while not work.done():
                await asyncio.wait({work}, timeout=RENEW_S)
                if not await self._claim(one):
                    break
        except (SQLAlchemyError, OSError) as error:
            log.warning("relay.not_renewed", sandbox_id=one.sandbox_id, error=type(error).__name__)
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            with suppress(SQLAlchemyError, OSError):
                await self._release(one)

    async def _release(self, one: RelayedSandbox) -> None:
        async with self._parts.db.write() as session:
            await release_relay(session, one.sandbox_id, self._parts.worker_id, self._parts.clock())

    def _clear(self, sandbox_id: str) -> None:
        """What a killed worker left of this one's artifacts."""
        self._scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in self._scratch.glob(f"{sandbox_id}-*"):
            left.unlink(missing_ok=True)
