"""A world whose web, worker and Redis are started again the moment they die, so that a run can be killed many times.

`issuewright up` waits longer each time a part of it dies soon again, and loads all libraries anew. Here each process is
forked from one that has loaded them; everything else about it is as `issuewright web` and `python -m worker` have it.
The flow suite, the sampled points and the cut-off database meet `issuewright up` itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Any, Protocol

import redis

from app.queue.embedded import find_server
from tests.cli.warm import WarmCommands
from tests.flow.combination import Servers
from tests.flow.world import World

_GRACE_S = 30.0
_REDIS_START_S = 10.0


class _Process(Protocol):
    pid: int

    def wait(self) -> int: ...


class _Kept:
    """One part, kept running in a thread of its own until `end`."""

    def __init__(self, start: Any) -> None:
        self._start = start
        self._ending = threading.Event()
        self._process: _Process = start()
        self.codes: list[int] = []
        """How its processes ended."""
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _keep(self) -> None:
        while True:
            self.codes.append(self._process.wait())
            if self._ending.is_set() or self.codes[-1] == 2:  # wrong settings stay wrong
                return
            self._process = self._start()

    def end(self) -> None:
        self._ending.set()
        deadline = time.monotonic() + _GRACE_S
        while self._thread.is_alive():
            # Again and again: the one asked may have died just before, and another have come.
            late = time.monotonic() > deadline
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL if late else signal.SIGTERM)
            self._thread.join(0.2)


class Fleet(World):
    """As `World`, with parts of its own instead of `issuewright up`. Has no servers: SQLite, and a Redis on a socket."""

    def __init__(
        self, provider: str, servers: Servers | None, public_port: int | None, settings: Mapping[str, str]
    ) -> None:
        super().__init__(provider, servers, public_port, settings)
        self.redis_socket = self.home / "redis.sock"
        self._settings |= {"REDIS_URL": f"unix://{self.redis_socket}"}
        self._parts: dict[str, _Kept] = {}
        self._lock = threading.Lock()
        self._log: IO[bytes] | None = None
        self._warm = WarmCommands()

    def start_up(self, **changes: str) -> None:
        environment = self.environment | changes
        if self._log is None:
            self._log = (self.home / "logs" / "up.log").open("ab")
            self._logs.append(self._log)
            (self.home / "redis").mkdir()
            code = self._fork(["app", "migrate"], environment).wait()
            assert code == 0, self.log_tail("up")
        self._parts = {
            "redis": _Kept(self._start_redis),
            "web": _Kept(lambda: self._fork(["app", "web"], environment)),
            "worker": _Kept(lambda: self._fork(["worker", "--own-sandboxes"], environment)),
        }
        self.wait(self._ready, "the start of the parts")

    def shut_down(self) -> None:
        for name in ("worker", "web", "redis"):
            if name in self._parts:
                self._parts.pop(name).end()

    def children(self) -> dict[str, int]:
        return {name: part.pid for name, part in self._parts.items()}

    def _fork(self, command: list[str], environment: Mapping[str, str]) -> _Process:
        assert self._log is not None
        module, *arguments = command
        with self._lock:
            return self._warm.start(arguments, environment, self.home, self._log, self._log, module=module)

    def _start_redis(self) -> _Process:
        """An empty one. Returns when it answers."""
        self.redis_socket.unlink(missing_ok=True)
        options = {
            "port": "0", "unixsocket": str(self.redis_socket), "dir": str(self.home / "redis"), "save": "",
            "logfile": str(self.home / "logs" / "redis.log"), "daemonize": "no",
        }  # fmt: skip
        process = subprocess.Popen(
            [str(find_server()), *(part for key, value in options.items() for part in (f"--{key}", value))],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0,
        )  # fmt: skip
        deadline = time.monotonic() + _REDIS_START_S
        while not self._redis_answers():
            assert process.poll() is None, "the Redis server ended at once"
            assert time.monotonic() < deadline, "the Redis server did not answer in time"
            time.sleep(0.02)
        return process

    def _redis_answers(self) -> bool:
        with redis.Redis(unix_socket_path=str(self.redis_socket)) as client:
            try:
                return bool(client.ping())
            except redis.RedisError:
                return False

    def _ready(self) -> bool:
        assert not any(2 in part.codes for part in self._parts.values()), self.log_tail("up")
        return super()._ready()

    def _stop(self) -> None:
        self.shut_down()
        self._warm.close()
        super()._stop()
