from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from app.queue.consumer import Consumer, Job
from app.queue.doorbell import Doorbell
from app.queue.jobs import JobName
from tests.queue.conftest import AnyRedis
from tests.queue.waiting import until


class Heard:
    def __init__(self) -> None:
        self.keys: list[str] = []
        self.at: list[float] = []

    async def __call__(self, key: str) -> None:
        self.keys.append(key)
        self.at.append(time.monotonic())

    def has(self, key: str):
        async def look() -> bool:
            return key in self.keys

        return look


@asynccontextmanager
async def consuming(url: str, job: Job) -> AsyncIterator[None]:
    running = asyncio.create_task(Consumer(url, {JobName.ADVANCE: job}, "worker-1").run())
    try:
        yield
        assert not running.done(), "the consumer died"
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def test_ring_starts_the_job_soon_and_again_for_a_repeated_version(redis: AnyRedis) -> None:
    heard, doorbell = Heard(), Doorbell(redis.url)
    async with consuming(redis.url, heard):
        await doorbell.ring(JobName.ADVANCE, "spec_1", 1)
        await until(heard.has("spec_1"))
        # No result stays behind that would swallow the same ring later.
        await until(lambda: rung_twice(doorbell, heard))
        started = time.monotonic()
        await doorbell.ring(JobName.ADVANCE, "spec_2", 1)
        await until(heard.has("spec_2"))
        assert heard.at[heard.keys.index("spec_2")] - started < 1.0
    await doorbell.aclose()


async def test_ring_is_heard_without_a_poll(redis: AnyRedis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.queue.consumer.POLL_DELAY_S", 3600.0)
    heard, doorbell = Heard(), Doorbell(redis.url)
    async with consuming(redis.url, heard):
        for number in range(5):
            await doorbell.ring(JobName.ADVANCE, f"spec_{number}", 1)
            await until(heard.has(f"spec_{number}"))
    await doorbell.aclose()


async def rung_twice(doorbell: Doorbell, heard: Heard) -> bool:
    await doorbell.ring(JobName.ADVANCE, "spec_1", 1)
    return heard.keys.count("spec_1") >= 2


async def test_consumer_survives_a_killed_and_restarted_redis(redis: AnyRedis) -> None:
    heard, doorbell = Heard(), Doorbell(redis.url)
    async with consuming(redis.url, heard):
        await doorbell.ring(JobName.ADVANCE, "spec_1", 1)
        await until(heard.has("spec_1"))
        os.kill(redis.pid or 0, signal.SIGKILL)
        await redis.wait()
        await redis.start()
        await until(lambda: doorbell.ring(JobName.ADVANCE, "spec_2", 1))
        await until(heard.has("spec_2"))
    await doorbell.aclose()


async def test_job_that_raises_does_not_end_the_consumer(redis: AnyRedis) -> None:
    doorbell, heard = Doorbell(redis.url), Heard()

    async def fail_first(key: str) -> None:
        await heard(key)
        if key == "bad":
            raise RuntimeError("no")

    async with consuming(redis.url, fail_first):
        await doorbell.ring(JobName.ADVANCE, "bad", 1)
        await until(heard.has("bad"))
        await doorbell.ring(JobName.ADVANCE, "good", 1)
        await until(heard.has("good"))
    await doorbell.aclose()


async def test_consumer_stopped_lets_its_running_job_finish(redis: AnyRedis) -> None:
    doorbell, started, go_on, finished = (
        Doorbell(redis.url),
        asyncio.Event(),
        asyncio.Event(),
        asyncio.Event(),
    )

    async def job(_key: str) -> None:
        started.set()
        await go_on.wait()
        finished.set()

    running = asyncio.create_task(Consumer(redis.url, {JobName.ADVANCE: job}, "worker-1").run())
    await doorbell.ring(JobName.ADVANCE, "spec_1", 1)
    await asyncio.wait_for(started.wait(), 10)
    running.cancel()
    asyncio.get_running_loop().call_soon(go_on.set)
    with suppress(asyncio.CancelledError):
        await running
    assert finished.is_set()
    await doorbell.aclose()


async def test_job_of_another_release_is_passed_over_and_the_next_one_is_heard(redis: AnyRedis) -> None:
    """The web process is newer than the worker: what the ring was for is found by the sweep of a newer worker."""
    heard, doorbell = Heard(), Doorbell(redis.url)
    async with consuming(redis.url, heard):
        await doorbell.ring(JobName.INTAKE, "nobody knows this job here", 1)
        await doorbell.ring(JobName.ADVANCE, "spec_1", 1)
        await until(heard.has("spec_1"))
    assert heard.keys == ["spec_1"]
    await doorbell.aclose()
