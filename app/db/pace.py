"""The pace of calls per installation, kept in the database: shared by all workers, true after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta

from app.db.engine import Database
from app.db.installations import find_installation
from app.db.writes import claim_write, record_pause, take_turn
from app.domain.errors import RetryAt
from app.domain.ids import InstallationId
from app.domain.pace import Urgency

_SHORT = timedelta(seconds=1.2)

_urgency: ContextVar[Urgency] = ContextVar("urgency_of_writes", default=Urgency.WORK)


@contextmanager
def writing(urgency: Urgency) -> Iterator[None]:
    """What the writes in here are for, and so what goes before them."""
    token = _urgency.set(urgency)
    try:
        yield
    finally:
        _urgency.reset(token)


class DatabasePace:
    """Implements `app.github.pace.Pace`. `clock` and `sleep` (seconds) belong together. Waits up to `patience`, in all,
    are waited out in place; longer ones become a stored time to come back.
    """

    def __init__(
        self,
        db: Database,
        clock: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        patience: timedelta = _SHORT,
    ) -> None:
        self._db = db
        self._clock = clock
        self._sleep = sleep
        self._patience = patience

    async def before_read(self, installation_id: InstallationId) -> None:
        async with self._db.read() as session:
            found = await find_installation(session, installation_id)
        if found is not None and found.not_before_at is not None and found.not_before_at > self._clock():
            raise RetryAt(
                "GitHub asked this installation to pause", found.not_before_at, scope="installation"
            )

    async def before_write(self, installation_id: InstallationId) -> None:
        urgency = _urgency.get()
        # Nobody waits for an edit that the next one replaces, and holding a step for it helps nobody.
        patience = timedelta(0) if urgency is Urgency.PROGRESS else self._patience
        while True:
            now = self._clock()
            async with self._db.write() as session:
                free_at = await claim_write(session, installation_id, now, urgency)
            if free_at is None:
                return
            wait = max(free_at - now, timedelta(milliseconds=10))
            if wait > patience:
                async with self._db.write() as session:
                    turn_at = await take_turn(session, installation_id, urgency, free_at)
                raise RetryAt("writes to this installation keep their pace", turn_at, scope="installation")
            patience -= wait
            await self._sleep(wait.total_seconds())

    async def after_limit(self, installation_id: InstallationId, at: datetime) -> None:
        async with self._db.write() as session:
            await record_pause(session, installation_id, at)
