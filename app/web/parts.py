"""What the routes share: one `Parts` per process, for the public app and the sandboxes' app alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

import httpx
from fastapi import Depends, Request

from app.db.cipher import Cipher
from app.db.engine import Database
from app.settings import Settings
from app.web.budgets import Bucket, Slots
from app.web.event_commits import EventCommits
from app.web.metrics import Metrics
from app.web.ports import Bell, Doorbell, Limits, Ping
from app.web.tokens import KnownTokens


def utc_now() -> datetime:
    return datetime.now(UTC)


def upstream_client(limits: Limits) -> httpx.AsyncClient:
    """For the model upstream: no environment (its variables are ours to read, not a library's), no redirects."""
    timeout = httpx.Timeout(
        limits.upstream_read_s, connect=limits.upstream_connect_s, pool=limits.upstream_connect_s
    )
    pool = httpx.Limits(max_connections=200, max_keepalive_connections=20)
    return httpx.AsyncClient(timeout=timeout, limits=pool, trust_env=False, follow_redirects=False)


@dataclass
class Parts:
    """`closing` is set when the process stops: polls that wait answer at once.

    Raises SettingsError for settings that nothing can be made of.
    """

    settings: Settings
    database: Database
    doorbell: Doorbell
    bell: Bell
    redis_ping: Ping
    clock: Callable[[], datetime] = utc_now
    limits: Limits = field(default_factory=Limits)
    metrics: Metrics = field(default_factory=Metrics)
    upstream: httpx.AsyncClient | None = None
    closing: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        limits = self.limits
        self.model_http = self.upstream or upstream_client(limits)
        self.cipher = Cipher(self.settings.credential_keys)
        self.polls = Slots(limits.polls_per_sandbox)
        self.uploads = Slots(limits.uploads_per_sandbox)
        self.calls = Slots(limits.calls_per_sandbox)
        self.event_count = Bucket(limits.events_per_s, limits.events_burst)
        self.event_bytes = Bucket(limits.event_bytes_per_s, limits.event_bytes_burst)
        self.upload_bytes = Bucket(limits.upload_bytes_per_s, limits.upload_bytes_burst)
        self.event_commits = EventCommits(self)
        self.known_tokens = KnownTokens()
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Something that must end even if the request that began it is cancelled; `drain` waits for it."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def drain(self, limit_s: float) -> None:
        """Wait for spawned work, at most `limit_s`."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=limit_s)

    async def aclose(self) -> None:
        self.closing.set()
        await self.drain(2.0)
        await self.model_http.aclose()


async def parts_of(request: Request) -> Parts:  # async: a plain function is called in a thread
    parts: Parts = request.app.state.parts
    return parts


PartsOf = Annotated[Parts, Depends(parts_of)]
