"""Rings for the worker: "look at this". What it is about stands in the database; a lost ring costs one sweep."""

from __future__ import annotations

import asyncio

from arq.connections import ArqRedis
from redis.asyncio import ConnectionPool
from redis.exceptions import RedisError

from app.queue.bell import WORKERS
from app.queue.circuit import Circuit
from app.queue.jobs import JOBS, JobName, deserialize_job, job_id, serialize_job

RING_TIMEOUT_S = 0.5


class Doorbell:
    """One per process. Never raises, never takes longer than half a second, reconnects by itself.

    `url` None means there is no Redis: every ring returns False and the sweep does the work alone.
    """

    def __init__(self, url: str | None) -> None:
        self._circuit = Circuit()
        self._redis: ArqRedis | None = None
        if url is not None:
            pool = ConnectionPool.from_url(
                url, socket_connect_timeout=RING_TIMEOUT_S, socket_timeout=RING_TIMEOUT_S, max_connections=20
            )
            self._redis = ArqRedis(pool, job_serializer=serialize_job, job_deserializer=deserialize_job)

    async def ring(self, job: JobName, key: str, version: int = 0) -> bool:
        """True when a worker will hear of `key` at `version` (also when someone had rung for it already)."""
        if self._redis is None or self._circuit.is_open:
            return False
        try:
            async with asyncio.timeout(RING_TIMEOUT_S):
                if await self._redis.enqueue_job(job.value, key, _job_id=job_id(job, key, version)):
                    await self._redis.publish(WORKERS + JOBS, b"")
        except (RedisError, OSError, TimeoutError):
            self._circuit.trip()
            return False
        return True

    async def ping(self) -> bool:
        """Whether Redis answers now, within half a second; for readiness. Never raises."""
        if self._redis is None:
            return False
        try:
            async with asyncio.timeout(RING_TIMEOUT_S):
                await self._redis.ping()
        except (RedisError, OSError, TimeoutError):
            return False
        return True

    async def aclose(self) -> None:
        if self._redis is not None:
            await self._redis.aclose(close_connection_pool=True)
