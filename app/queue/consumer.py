"""The listening end of the doorbell: an arq worker set up so that nothing depends on arq's own promises."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from arq.connections import ArqRedis
from arq.worker import Worker, func
from redis.exceptions import RedisError

from app.queue.bell import WORKERS, Bell
from app.queue.jobs import (
    JOB_TIMEOUT_S,
    JOBS,
    POLL_DELAY_S,
    JobName,
    deserialize_job,
    redis_settings,
    serialize_job,
)

Job = Callable[[str], Awaitable[None]]
"""What a ring starts: it is told the key, and may be started twice, late or not at all."""

COMPLETION_WAIT_S = 20
CLOSE_TIMEOUT_S = 3
MAX_JOBS = 10
_QUIET_S = 60.0


class Consumer:
    """Every job has the same timeout (arq's lock lives as long as the longest one), leaves no result behind (a result
    would swallow the next ring), and is tried at most three times: the sweep rings again.
    """

    def __init__(
        self, url: str, jobs: Mapping[JobName, Job], worker_id: str, max_jobs: int = MAX_JOBS
    ) -> None:
        self._bell = Bell(url, WORKERS)
        self._worker = Worker(
            functions=[_function(name, job) for name, job in jobs.items()],
            redis_settings=redis_settings(url),
            job_timeout=JOB_TIMEOUT_S,
            keep_result=0,
            max_tries=3,
            max_jobs=max_jobs,
            retry_jobs=True,
            allow_abort_jobs=False,
            poll_delay=POLL_DELAY_S,
            handle_signals=False,
            # One key per worker: arq deletes it at any worker's end.
            health_check_key=f"issuewright:arq:{worker_id}",
            health_check_interval=60,
            job_serializer=serialize_job,
            job_deserializer=deserialize_job,
            log_results=False,
        )

    async def run(self) -> None:
        """Until it is cancelled; then no job is picked up any more, running ones get 20 s and are cancelled.

        Outlives restarts of Redis, and starts before Redis does.
        """
        running = asyncio.create_task(self._worker.async_run(), name="arq")
        waking = asyncio.create_task(self._look_when_rung(), name="arq-bell")
        try:
            await asyncio.shield(running)
        finally:
            self._worker.allow_pick_jobs = False
            await self._bell.aclose()
            await asyncio.wait({waking}, timeout=CLOSE_TIMEOUT_S)  # not in the middle of its talk with Redis
            waking.cancel()
            await self._end(running)

    async def _look_when_rung(self) -> None:
        """Of itself arq only polls: often enough for people who wait would be work for an idle machine."""
        while self._worker.allow_pick_jobs:
            mark = self._bell.mark()
            if self._worker._pool is not None:  # noqa: SLF001
                with suppress(RedisError, OSError, TimeoutError):  # arq's own polls go on and say so
                    await self._worker._poll_iteration()  # noqa: SLF001 - what arq's poll does; it may run at any time
            if self._worker.allow_pick_jobs:
                await self._bell.wait(JOBS, _QUIET_S, mark)

    async def _end(self, running: asyncio.Task[None]) -> None:
        self._worker.allow_pick_jobs = False
        jobs = {task for task in self._worker.tasks.values() if not task.done()}
        if jobs:
            await asyncio.wait(jobs, timeout=COMPLETION_WAIT_S)
        for task in (*self._worker.tasks.values(), running):
            task.cancel()
        # Without a Redis, arq would go on trying to put cancelled jobs back: not our problem, the sweep rings.
        await asyncio.wait({*self._worker.tasks.values(), running}, timeout=CLOSE_TIMEOUT_S)
        pool: ArqRedis | None = self._worker._pool  # noqa: SLF001 - None when it never reached Redis
        if pool is not None:
            with suppress(RedisError, OSError, TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await pool.aclose(close_connection_pool=True)


def _function(name: JobName, job: Job) -> Any:
    async def run(_context: dict[Any, Any], key: str) -> None:
        await job(key)

    return func(run, name=name.value, timeout=JOB_TIMEOUT_S, keep_result=0, max_tries=3)
