"""Steps are cut off at any moment, by workers that start again and again: each thing is there once in the end."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from app.db.specs import LEASE
from app.domain.errors import Unexpected
from app.domain.ports import SandboxSight
from app.domain.states import SpecState
from tests.worker.bench import Bench
from tests.worker.test_life import finish, start
from worker.engine import Engine

CUTS_MS = (1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 66, 78, 91, 105, 120)


async def test_steps_cancelled_at_any_moment_by_workers_that_remember_nothing_leave_one_of_each(
    bench: Bench,
) -> None:
    bench.label(bench.open_issue())
    await bench.receive(bench.new_deliveries())
    await bench.take_in()
    spec_id = (await bench.spec()).id
    for number, cut_ms in enumerate(CUTS_MS):
        worker = Engine(replace(bench.parts, worker_id=f"worker-{number}"))
        task = asyncio.create_task(worker.advance(spec_id))
        await asyncio.wait({task}, timeout=cut_ms / 1000)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        bench.clock.add(LEASE.total_seconds() + 1)
        if bench.sandboxes.orders:
            await bench.report(number)
    await bench.rest()
    assert len(bench.sandboxes.orders) == 1
    assert (await bench.spec()).failures == 0
    await finish(bench, 1)


async def test_step_that_always_fails_ends_with_its_sandbox_taken_down(bench: Bench) -> None:
    await start(bench)

    async def broken(name: str) -> SandboxSight:
        raise Unexpected(f"no word about {name}")

    bench.sandboxes.fetch_sight = broken  # type: ignore[method-assign]
    await bench.pass_time(300, 20)
    assert (await bench.spec()).state is SpecState.FAILED
    assert bench.sandboxes.sights == {}
    before = len(bench.writes())
    await bench.pass_time(120, 20)
    assert len(bench.writes()) == before
