from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.queue.embedded import EmbeddedRedis
from tests.servers import RedisServer


@pytest.fixture
def home() -> Iterator[Path]:
    """A short ISSUEWRIGHT_HOME: pytest's own temporary paths are too long for a socket."""
    with tempfile.TemporaryDirectory(prefix="iw-") as path:
        yield Path(path)


class ExternalRedis:
    """A redis-server that is started and waited for as the embedded one."""

    def __init__(self, directory: Path) -> None:
        self._server = RedisServer(directory)
        self.url = self._server.url

    @property
    def pid(self) -> int | None:
        return self._server.pid

    async def start(self) -> None:
        await asyncio.to_thread(self._server.start)

    async def wait(self) -> int:
        return await asyncio.to_thread(self._server.wait)

    async def stop(self) -> None:
        await asyncio.to_thread(self._server.kill)


AnyRedis = EmbeddedRedis | ExternalRedis


@pytest.fixture
async def embedded(home: Path) -> AsyncIterator[EmbeddedRedis]:
    server = EmbeddedRedis(home, os.environ)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def redis(home: Path, on_servers: bool) -> AsyncIterator[AnyRedis]:
    """Whichever this run uses."""
    server = ExternalRedis(home) if on_servers else EmbeddedRedis(home, os.environ)
    await server.start()
    yield server
    await server.stop()
