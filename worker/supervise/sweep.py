"""The sweep: finds what no ring told of. Needs the database only, so a dead Redis slows the product but stops nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.db.effects import list_due_effects
from app.db.intake import list_waiting
from app.db.specs import list_due
from worker.effects import Effects
from worker.engine import Engine
from worker.intake import Intake
from worker.parts import Parts

log = structlog.get_logger("worker.sweep")

LOOK_S = 0.5
"""Three indexed look-ups; this is also what wakes a spec whose time to look again has come."""
SLOTS = 10


class Sweep:
    """Runs until cancelled. Everything it starts is claimed first, so several sweeps do each thing once."""

    def __init__(self, parts: Parts, engine: Engine, intake: Intake, effects: Effects) -> None:
        self._parts = parts
        self._engine = engine
        self._intake = intake
        self._effects = effects
        self._running: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        while True:
            try:
                await self._look()
            except (SQLAlchemyError, OSError) as error:
                log.warning("sweep.failed", error=type(error).__name__)
                await asyncio.sleep(1)
            await asyncio.sleep(LOOK_S)

    async def stop(self) -> None:
        """Let what it started end; steps may be cut anywhere, so this is politeness."""
        tasks = list(self._running.values())
        if tasks:
            await asyncio.wait(tasks, timeout=10)
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task

    async def _look(self) -> None:
        now = self._parts.clock()
        async with self._parts.db.read() as session:
            deliveries = await list_waiting(session, now)
            effects = await list_due_effects(session, now)
            specs = await list_due(session, now)
        self._start(deliveries, self.take_in)
        self._start(effects, self._perform)
        self._start(specs, self._advance)

    def _start(self, keys: Iterable[str], work: Callable[[str], Awaitable[object]]) -> None:
        for key in keys:
            if key not in self._running and len(self._running) < 3 * SLOTS:
                task = asyncio.create_task(self._guarded(key, work))
                self._running[key] = task
                task.add_done_callback(lambda _task, key=key: self._running.pop(key, None))  # type: ignore[misc]

    async def _guarded(self, key: str, work: Callable[[str], Awaitable[object]]) -> None:
        try:
            await work(key)
        except (SQLAlchemyError, OSError) as error:
            log.warning("sweep.failed", key=key, error=type(error).__name__)

    async def hear(self, delivery_id: str) -> None:
        """A ring names one of the deliveries that were committed together: that one, and what else waits."""
        self._start([delivery_id], self.take_in)
        await self._look()

    async def take_in(self, delivery_id: str) -> None:
        """A delivery, and at once what it started."""
        verdict = await self._intake.take_in(delivery_id)
        if verdict is None:
            return
        self._start(verdict.spec_ids, self._advance)
        self._start(verdict.effect_ids, self._perform)

    async def _advance(self, spec_id: str) -> None:
        await self._engine.advance(spec_id)

    async def _perform(self, effect_id: str) -> None:
        await self._effects.perform(effect_id)
