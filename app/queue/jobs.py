"""Names and settings of the arq jobs. arq is known in `app.queue` alone: it only rings, the database is the truth."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from arq.connections import RedisSettings
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import (
    BusyLoadingError,
    ConnectionError as RedisConnectionError,
    TimeoutError as RedisTimeoutError,
)

JOB_TIMEOUT_S = 60
"""Of every job alike: arq's in-progress lock lives as long as the longest one, and nothing renews it."""
POLL_DELAY_S = 0.2
"""How often a worker looks for jobs that it was not woken for: a ring lost with its connection, arq's own retries."""
JOBS = "jobs"
"""What the workers' bell is rung for."""


class JobName(StrEnum):
    """The jobs a worker registers. Each takes one key and nothing else, and may come twice, late or never."""

    ADVANCE = "advance"
    """Key: a spec's id."""
    INTAKE = "intake"
    """Key: a delivery's GUID."""
    PERFORM = "perform"
    """Key: an effect's id."""


def job_id(job: JobName, key: str, version: int = 0) -> str:
    """Rings for the same version fall together; a newer version rings even while an older job is still running."""
    return f"{job}:{key}:{version}"


def redis_settings(url: str) -> RedisSettings:
    """For a worker that outlives every restart of its Redis.

    `OSError` among the retried errors is what keeps an arq worker alive (measured); 50 tries with at most 1 s between
    them bridge a restart, and `conn_retries` lets a worker start before its Redis does.
    """
    settings = RedisSettings.from_dsn(url)
    parts = urlsplit(url)
    if parts.scheme == "unix":
        # arq takes the path as it stands; percent signs in it are ours (see `unix_url`).
        settings.unix_socket_path = unquote(parts.path)
        settings.database = int(parse_qs(parts.query).get("db", ["0"])[0])
    settings.conn_timeout = 2
    settings.conn_retries = 1_000_000
    settings.conn_retry_delay = 1
    settings.retry = Retry(ExponentialBackoff(cap=1), 50)
    settings.retry_on_error = [RedisConnectionError, RedisTimeoutError, BusyLoadingError, OSError]
    settings.retry_on_timeout = True
    return settings


def serialize_job(value: dict[str, Any]) -> bytes:
    """JSON, never pickle: who can write to Redis must not be able to run code. What JSON can't hold becomes its repr
    (an exception as a job's result).
    """
    return json.dumps(value, default=repr, separators=(",", ":")).encode()


def deserialize_job(data: bytes) -> dict[str, Any]:
    """Raises ValueError for anything that is not a JSON object; arq then drops the job, and the sweep rings again."""
    value = json.loads(data)
    if not isinstance(value, dict):
        raise TypeError("a job must be a JSON object")
    return value
