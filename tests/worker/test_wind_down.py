"""A machine is shut down while agents work: all of them are told, whatever the provider answers about one of them."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from app.domain.errors import RetryAt
from app.domain.ports import SandboxSight
from tests.worker.bench import Bench
from tests.worker.test_life import start
from worker.wind_down import wind_down


async def start_two(bench: Bench) -> tuple[str, str]:
    await start(bench)
    bench.label(bench.open_issue("Another"))
    await bench.rest()
    await bench.pass_time(15)
    first, second = bench.sandboxes.orders
    return first, second


async def test_one_does_not_answer_the_stop_then_the_others_are_told_meanwhile(bench: Bench) -> None:
    first, second = await start_two(bench)
    stop, told = bench.sandboxes.ensure_stopped, asyncio.Event()

    async def waits_for_the_other(name: str, grace_s: float) -> None:
        if name == first:
            await told.wait()
        await stop(name, grace_s)
        told.set()

    bench.sandboxes.ensure_stopped = waits_for_the_other  # type: ignore[method-assign]
    async with asyncio.timeout(10):
        await wind_down(bench.parts)
    assert bench.sandboxes.stops == [second, first]


async def test_provider_is_away_while_it_is_asked_then_it_is_asked_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.wind_down.PAUSE_S", 0.0)
    names = await start_two(bench)
    look, asked = bench.sandboxes.fetch_sight, []

    async def away_at_first(name: str) -> SandboxSight:
        asked.append(name)
        if len(asked) <= len(names):
            raise RetryAt("away", bench.clock() + timedelta(seconds=10))
        return await look(name)

    bench.sandboxes.fetch_sight = away_at_first  # type: ignore[method-assign]
    await wind_down(bench.parts)
    assert sorted(bench.sandboxes.stops) == sorted(names)
    assert asked == [*names, *names]
