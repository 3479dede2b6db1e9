"""Wakes who waits: a poll for its sandbox's messages, a worker for jobs. A pub/sub channel each, a connection per bell.

Like the doorbell it may lose a ring: whoever waits looks at the database afterwards in any case, and at least once a
second while Redis is away.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from app.queue.circuit import Circuit

SANDBOXES = "sandbox:"
"""Channels of the polls; the rest of the name is a sandbox's id."""
WORKERS = "worker:"
"""Channels of the workers."""
RING_TIMEOUT_S = 0.5
BLIND_WAIT_S = 1.0
"""The longest wait while nobody can ring."""
_REMEMBERED = 10_000
_RETRY_S = 0.5


class Bell:
    """One per process and kind of channel. `url` None: rings reach only waiters of this process, and waits are short."""

    def __init__(self, url: str | None, channels: str = SANDBOXES) -> None:
        self._channels = channels
        self._redis: Any = None
        if url is not None:
            self._redis = Redis.from_url(url, socket_connect_timeout=RING_TIMEOUT_S, health_check_interval=15)
        self._circuit = Circuit()
        self._waiters: dict[str, set[asyncio.Event]] = {}
        self._rung: OrderedDict[str, int] = OrderedDict()
        self._count = 0
        self._listener: asyncio.Task[None] | None = None
        self._hearing = asyncio.Event()

    async def ring(self, key: str) -> None:
        """Wake everybody who waits for `key`, in any process. Never raises; bounded to half a second."""
        self._wake(key)
        if self._redis is None or self._circuit.is_open:
            return
        try:
            async with asyncio.timeout(RING_TIMEOUT_S):
                await self._redis.publish(self._channels + key, b"")
        except (RedisError, OSError, TimeoutError):
            self._circuit.trip()

    def mark(self) -> int:
        """Take it before looking at the database and give it to `wait`: a ring in between is then not missed."""
        return self._count

    async def wait(self, key: str, timeout_s: float, since: int | None = None) -> bool:
        """True when someone rang for `key` (after `since`, if given), False after `timeout_s` seconds, or after
        one second while Redis is away. True is a hint: look at the database.
        """
        if since is not None and self._rung.get(key, 0) > since:
            return True
        woken = asyncio.Event()
        self._waiters.setdefault(key, set()).add(woken)
        try:
            self._start_listening()
            limit = timeout_s if self._hearing.is_set() else min(timeout_s, BLIND_WAIT_S)
            async with asyncio.timeout(limit):
                await woken.wait()
        except TimeoutError:
            return False
        finally:
            waiters = self._waiters[key]
            waiters.discard(woken)
            if not waiters:
                del self._waiters[key]
        return True

    async def aclose(self) -> None:
        """Wakes every waiter, then closes the connections."""
        self._wake_all()
        if self._listener is not None:
            self._listener.cancel()
            with suppress(asyncio.CancelledError):
                await self._listener
            self._listener = None
        if self._redis is not None:
            await self._redis.aclose(close_connection_pool=True)

    # ------------------------------------------------------------ inside

    def _wake(self, key: str) -> None:
        self._count += 1
        self._rung[key] = self._count
        self._rung.move_to_end(key)
        while len(self._rung) > _REMEMBERED:
            self._rung.popitem(last=False)
        for woken in self._waiters.get(key, ()):
            woken.set()

    def _wake_all(self) -> None:
        for waiters in self._waiters.values():
            for woken in waiters:
                woken.set()

    def _start_listening(self) -> None:
        if self._redis is not None and self._listener is None:
            self._listener = asyncio.create_task(self._listen(), name="bell")

    async def _listen(self) -> None:
        while True:
            pubsub = self._redis.pubsub(ignore_subscribe_messages=True)
            try:
                await pubsub.psubscribe(self._channels + "*")
                await pubsub.get_message(timeout=RING_TIMEOUT_S)
                self._hearing.set()
                # Rings may have been lost while nobody listened: let everyone look once.
                self._wake_all()
                while True:
                    message = await pubsub.get_message(timeout=5)
                    if message is not None:
                        self._wake(message["channel"].decode(errors="replace").removeprefix(self._channels))
            except (RedisError, OSError, TimeoutError):
                if self._hearing.is_set():
                    self._hearing.clear()
                    self._wake_all()
            finally:
                with suppress(RedisError, OSError):
                    await pubsub.aclose()
            await asyncio.sleep(_RETRY_S)
