"""The database goes away in the middle of a step and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from sqlalchemy.ext.asyncio import AsyncSession

from app.db.engine import Database
from app.domain.ports import SandboxSight
from tests.worker.bench import Bench
from tests.worker.test_life import start
from worker.engine import Engine


class Leaving(Database):
    """Refuses writes, as a server does that is being restarted, while `away`."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.away = False
        self.refused = asyncio.Event()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncSession]:
        if self.away:
            self.refused.set()
            raise ConnectionRefusedError
        async with super().write() as session:
            yield session


async def test_step_that_ends_while_the_database_is_away_gives_its_spec_back_as_soon_as_it_is_there(
    bench: Bench,
) -> None:
    await start(bench)
    bench.clock.add(60)
    db = Leaving(bench.db.url)
    fetch_sight = bench.sandboxes.fetch_sight

    async def leaves(name: str) -> SandboxSight:
        db.away = True
        return await fetch_sight(name)

    bench.sandboxes.fetch_sight = leaves  # type: ignore[method-assign]
    step = asyncio.create_task(Engine(replace(bench.parts, db=db)).advance((await bench.spec()).id))
    try:
        async with asyncio.timeout(20):
            await db.refused.wait()
            assert (await bench.spec()).lease_until_at > bench.clock()
            db.away = False
            bench.sandboxes.fetch_sight = fetch_sight  # type: ignore[method-assign]
            await step
        found = await bench.spec()
        assert found.lease_until_at <= bench.clock()
        assert found.lease_owner is None
        assert found.failures == 0
    finally:
        step.cancel()
        await db.aclose()
