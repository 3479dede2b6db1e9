from __future__ import annotations

import os
import signal
import time

from arq.connections import ArqRedis
from arq.constants import default_queue_name
from redis.asyncio import ConnectionPool

from app.queue.doorbell import Doorbell
from app.queue.embedded import EmbeddedRedis
from app.queue.jobs import JobName, deserialize_job, redis_settings, serialize_job
from tests.queue.conftest import AnyRedis
from tests.queue.waiting import until


async def jobs_in(server: AnyRedis) -> list[tuple[str, str, tuple[str, ...]]]:
    client = ArqRedis(ConnectionPool.from_url(server.url), job_deserializer=deserialize_job)
    try:
        ids = [name.decode() for name in await client.zrange(default_queue_name, 0, -1)]
        found = []
        for name in ids:
            job = await client._get_job_def(name.encode(), 0)
            found.append((name, job.function, tuple(job.args)))
        return sorted(found)
    finally:
        await client.aclose(close_connection_pool=True)


async def test_ring_twice_for_one_version_leaves_one_job(redis: AnyRedis) -> None:
    doorbell = Doorbell(redis.url)
    try:
        assert await doorbell.ring(JobName.ADVANCE, "spec_1", 3)
        assert await doorbell.ring(JobName.ADVANCE, "spec_1", 3)
        assert await doorbell.ring(JobName.ADVANCE, "spec_1", 4)
        assert await doorbell.ring(JobName.INTAKE, "72d3162e-cc78-11e3-81ab-4c9367dc0958")
        assert await jobs_in(redis) == [
            ("advance:spec_1:3", "advance", ("spec_1",)),
            ("advance:spec_1:4", "advance", ("spec_1",)),
            (
                "intake:72d3162e-cc78-11e3-81ab-4c9367dc0958:0",
                "intake",
                ("72d3162e-cc78-11e3-81ab-4c9367dc0958",),
            ),
        ]
    finally:
        await doorbell.aclose()


async def test_no_redis_configured_ring_is_false_at_once() -> None:
    doorbell = Doorbell(None)
    assert not await doorbell.ring(JobName.PERFORM, "eff_1")
    assert not await doorbell.ping()
    await doorbell.aclose()


async def test_redis_killed_then_restarted_rings_again_by_itself(redis: AnyRedis) -> None:
    doorbell = Doorbell(redis.url)
    try:
        assert await doorbell.ring(JobName.ADVANCE, "spec_1", 1)
        os.kill(redis.pid or 0, signal.SIGKILL)
        await redis.wait()
        assert not await doorbell.ring(JobName.ADVANCE, "spec_1", 2)
        await redis.start()
        await until(lambda: doorbell.ring(JobName.ADVANCE, "spec_1", 3))
        assert ("advance:spec_1:3", "advance", ("spec_1",)) in await jobs_in(redis)
    finally:
        await doorbell.aclose()


async def test_redis_frozen_ring_gives_up_and_then_spares_it(redis: AnyRedis) -> None:
    doorbell = Doorbell(redis.url)
    try:
        assert await doorbell.ring(JobName.ADVANCE, "spec_1", 1)
        os.kill(redis.pid or 0, signal.SIGSTOP)
        started = time.monotonic()
        assert not await doorbell.ring(JobName.ADVANCE, "spec_1", 2)
        assert time.monotonic() - started < 1.0
        started = time.monotonic()
        for version in range(3, 103):
            assert not await doorbell.ring(JobName.ADVANCE, "spec_1", version)
        assert time.monotonic() - started < 0.2
    finally:
        os.kill(redis.pid or 0, signal.SIGCONT)
        await doorbell.aclose()


async def test_acknowledged_ring_survives_a_kill_of_redis(embedded: EmbeddedRedis) -> None:
    doorbell = Doorbell(embedded.url)
    try:
        for key in range(20):
            assert await doorbell.ring(JobName.INTAKE, f"delivery-{key}")
        os.kill(embedded.pid or 0, signal.SIGKILL)
        await embedded.wait()
        await embedded.start()
        assert len(await jobs_in(embedded)) == 20
    finally:
        await doorbell.aclose()


def test_job_with_an_exception_as_result_can_be_serialized() -> None:
    data = serialize_job({"t": 1, "r": ValueError("no")})
    assert deserialize_job(data) == {"t": 1, "r": "ValueError('no')"}


def test_worker_settings_survive_a_restart_of_redis() -> None:
    settings = redis_settings("redis://:secret@cache.example:6390/2")
    assert (settings.host, settings.port, settings.database, settings.password) == (
        "cache.example",
        6390,
        2,
        "secret",
    )
    assert OSError in (settings.retry_on_error or [])
    assert settings.retry_on_timeout
    assert settings.conn_retries > 10_000


def test_unix_url_with_escapes_and_database_is_understood() -> None:
    settings = redis_settings("unix:///run/with%20space/redis.sock?db=3")
    assert settings.unix_socket_path == "/run/with space/redis.sock"
    assert settings.database == 3
