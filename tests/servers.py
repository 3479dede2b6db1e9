"""The servers a team runs: databases in its PostgreSQL, Redis of Debian's package (what `pytest --servers` uses).

Everything here blocks and may be called from anywhere; asyncpg lives in threads of its own.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import redis

from tests.cli.running import free_port

_START_TIMEOUT_S = 20.0


def find_postgres() -> str | None:
    """URL of a database on a server where the tests may make others; None when none is named."""
    return os.environ.get("ISSUEWRIGHT_TEST_POSTGRES_URL")


def find_redis() -> str | None:
    return shutil.which("redis-server")


# ------------------------------------------------------------ PostgreSQL


@contextmanager
def new_database(*, durable: bool = False) -> Iterator[str]:
    """The URL of an empty database. It goes at the end, whoever uses it; that takes a second (a checkpoint)."""
    server, name = str(find_postgres()), f"iw_{uuid.uuid4().hex[:12]}"
    execute(server, f"create database {name}")
    try:
        # No test cuts the server's power; waiting for the disk at each commit takes longer than everything else.
        if not durable:
            execute(server, f"alter database {name} set synchronous_commit = off")
        yield server.rpartition("/")[0] + f"/{name}"
    finally:
        execute(server, f"drop database {name} with (force)")


def execute(url: str, *statements: str) -> None:
    """All in one transaction."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _execute(url, ";".join(statements))).result()


async def _execute(url: str, script: str) -> None:
    connection = await asyncpg.connect(_dsn(url))
    try:
        await connection.execute(script)
    finally:
        await connection.close()


def _dsn(url: str) -> str:
    return url.replace("+asyncpg", "")


class DatabaseLook:
    """Reads from one database, over one connection."""

    def __init__(self, url: str) -> None:
        self._url = _dsn(url)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._connection: Any = None

    def rows(self, query: str, values: tuple[Any, ...]) -> list[dict[str, Any]]:
        """`query` has a `?` for each of `values`."""
        return asyncio.run_coroutine_threadsafe(self._rows(query, values), self._loop).result(30)

    async def _rows(self, query: str, values: tuple[Any, ...]) -> list[dict[str, Any]]:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(self._url)
        numbers = iter(range(1, len(values) + 1))
        numbered = re.sub(r"\?", lambda _: f"${next(numbers)}", query)
        return [dict(row) for row in await self._connection.fetch(numbered, *values)]

    def close(self) -> None:
        if self._connection is not None:
            asyncio.run_coroutine_threadsafe(self._connection.close(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


# ------------------------------------------------------------ Redis


class RedisServer:
    """A redis-server on a loopback port, as Debian configures it: without an append-only file."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://127.0.0.1:{self._port}/0"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Returns when it answers."""
        options = {
            "port": str(self._port),
            "bind": "127.0.0.1",
            "dir": str(self._directory),
            "save": "",
            "daemonize": "no",
        }
        self._process = subprocess.Popen(
            ["redis-server", *(part for key, value in options.items() for part in (f"--{key}", value))],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0,
        )  # fmt: skip
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._answers():
            assert self._process.poll() is None, "redis-server ended at once"
            assert time.monotonic() < deadline, "redis-server did not answer in time"
            time.sleep(0.02)

    def _answers(self) -> bool:
        with redis.Redis.from_url(self.url) as client:
            try:
                return bool(client.ping())
            except redis.RedisError:
                return False

    def kill(self) -> None:
        """As a crash or a power cut ends it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def wait(self) -> int:
        return self._process.wait() if self._process else 0


@contextmanager
def running_redis(directory: Path) -> Iterator[RedisServer]:
    server = RedisServer(directory)
    server.start()
    try:
        yield server
    finally:
        server.kill()
