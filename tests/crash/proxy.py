"""A TCP proxy that can be cut: what stood is broken off, what comes is refused, until it is let through again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

_TIMEOUT_S = 10.0
_CHUNK_BYTES = 65_536


class Proxy:
    """From a port of 127.0.0.1 to `host:port`. Its loop runs in a thread of its own; all methods block."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self.port = 0

    @classmethod
    @contextmanager
    def running(cls, host: str, port: int) -> Iterator[Proxy]:
        proxy = cls(host, port)
        proxy._thread.start()
        try:
            proxy.let_through()
            yield proxy
        finally:
            proxy.cut()
            proxy._loop.call_soon_threadsafe(proxy._loop.stop)
            proxy._thread.join()
            proxy._loop.close()

    def let_through(self) -> None:
        self._run(self._listen())

    def cut(self) -> None:
        """Returns when nothing is connected any more."""
        self._run(self._break_off())

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_TIMEOUT_S)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _break_off(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._open):
            writer.transport.abort()
        if self._pumps:
            await asyncio.wait(self._pumps)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            there = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            self._open.discard(writer)
            return
        self._pump(reader, there[1])
        self._pump(there[0], writer)

    def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        self._open.add(target)
        task = self._loop.create_task(self._copy(source, target))
        self._pumps.add(task)
        task.add_done_callback(self._pumps.discard)

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await source.read(_CHUNK_BYTES):
                target.write(chunk)
                await target.drain()
        target.transport.abort() if target.transport.is_closing() else target.close()
        self._open.discard(target)
