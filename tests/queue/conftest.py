from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from app.queue.embedded import EmbeddedRedis


@pytest.fixture
def home() -> Iterator[Path]:
    """A short ISSUEWRIGHT_HOME: pytest's own temporary paths are too long for a socket."""
    with tempfile.TemporaryDirectory(prefix="iw-") as path:
        yield Path(path)


@pytest.fixture
async def redis(home: Path) -> AsyncIterator[EmbeddedRedis]:
    server = EmbeddedRedis(home, os.environ)
    await server.start()
    yield server
    await server.stop()
