from __future__ import annotations

import asyncio
import os
import signal
import time

from app.queue.bell import Bell
from tests.queue.conftest import AnyRedis
from tests.queue.waiting import until


async def heard(listener: Bell, ringer: Bell, sandbox_id: str) -> bool:
    waiting = asyncio.create_task(listener.wait(sandbox_id, 0.5))
    await asyncio.sleep(0)
    await ringer.ring(sandbox_id)
    return await waiting


async def test_ring_in_one_process_wakes_waiters_in_another(redis: AnyRedis) -> None:
    here, there = Bell(redis.url), Bell(redis.url)
    try:
        await until(lambda: heard(there, here, "sbx_1"))
        waiting = [asyncio.create_task(there.wait("sbx_1", 5)) for _ in range(3)]
        other = asyncio.create_task(there.wait("sbx_2", 0.3))
        await asyncio.sleep(0)
        started = time.monotonic()
        await here.ring("sbx_1")
        assert await asyncio.gather(*waiting) == [True, True, True]
        assert time.monotonic() - started < 0.25
        assert not await other
    finally:
        await here.aclose()
        await there.aclose()


async def test_ring_between_mark_and_wait_is_not_missed() -> None:
    bell = Bell(None)
    mark = bell.mark()
    await bell.ring("sbx_1")
    assert await bell.wait("sbx_1", 5, since=mark)
    assert not await bell.wait("sbx_1", 0.05, since=bell.mark())
    assert not await bell.wait("sbx_2", 0.05, since=mark)
    await bell.aclose()


async def test_redis_away_wait_is_short_and_local_rings_still_wake(home: object) -> None:
    bell = Bell(f"unix://{home}/nobody.sock")
    try:
        started = time.monotonic()
        assert not await bell.wait("sbx_1", 25)
        assert 0.9 < time.monotonic() - started < 2
        waiting = asyncio.create_task(bell.wait("sbx_1", 25))
        await asyncio.sleep(0)
        await bell.ring("sbx_1")
        assert await waiting
    finally:
        await bell.aclose()


async def test_redis_restarts_waiters_are_woken_and_heard_again(redis: AnyRedis) -> None:
    here, there = Bell(redis.url), Bell(redis.url)
    try:
        await until(lambda: heard(there, here, "sbx_1"))
        waiting = asyncio.create_task(there.wait("sbx_1", 25))
        await asyncio.sleep(0)
        os.kill(redis.pid or 0, signal.SIGKILL)
        await redis.wait()
        # Nobody can ring now: the waiter must look for itself.
        assert await asyncio.wait_for(waiting, 5)
        await redis.start()
        await until(lambda: heard(there, here, "sbx_1"))
    finally:
        await here.aclose()
        await there.aclose()


async def test_bell_closes_waiters_are_released(redis: AnyRedis) -> None:
    bell = Bell(redis.url)
    waiting = asyncio.create_task(bell.wait("sbx_1", 25))
    await asyncio.sleep(0)
    await bell.aclose()
    assert await asyncio.wait_for(waiting, 1)
