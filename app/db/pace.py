"""The pace of calls per installation, kept in the database: shared by all workers, true after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta

from app.db.engine import Database
from app.db.installations import BURST, claim_write, find_installation, record_pause
from app.domain.errors import RetryAt
from app.domain.ids import InstallationId

_SHORT = timedelta(seconds=1.2)
"""Waits up to this are waited out in place; longer ones become a stored time to come back."""

_background: ContextVar[bool] = ContextVar("background_writes", default=False)


@contextmanager
def in_background() -> Iterator[None]:
    """Writes in here keep a full second between each other, so that the burst is left to work people wait for."""
    token = _background.set(True)
    try:
        yield
    finally:
        _background.reset(token)


class DatabasePace:
    """Implements `app.github.pace.Pace`."""

    def __init__(self, db: Database, clock: Callable[[], datetime]) -> None:
        self._db = db
        self._clock = clock

    async def before_read(self, installation_id: InstallationId) -> None:
        async with self._db.read() as session:
            found = await find_installation(session, installation_id)
        if found is not None and found.not_before_at is not None and found.not_before_at > self._clock():
            raise RetryAt(
                "GitHub asked this installation to pause", found.not_before_at, scope="installation"
            )

    async def before_write(self, installation_id: InstallationId) -> None:
        burst = timedelta(0) if _background.get() else BURST
        while True:
            now = self._clock()
            async with self._db.write() as session:
                free_at = await claim_write(session, installation_id, now, burst)
            if free_at is None:
                return
            if free_at - now > _SHORT:
                raise RetryAt("writes to this installation keep their pace", free_at, scope="installation")
            await asyncio.sleep(max((free_at - now).total_seconds(), 0.01))

    async def after_limit(self, installation_id: InstallationId, at: datetime) -> None:
        async with self._db.write() as session:
            await record_pause(session, installation_id, at)
