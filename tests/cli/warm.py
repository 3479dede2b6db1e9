"""`python -m app` and `python -m worker` without the second it takes to load their libraries: a process that has loaded
them forks for each.

What is forked is a process like any other, with arguments, environment, directory and outputs of its own; only its
modules are there already. What a command loads, and how long that takes, is tested without this.

Run as a program, this is the process that forks: it takes requests from the socket that is its standard input.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

_CHUNK = 1 << 16
_LOADED = ("app.cli", "app.db", "app.github", "app.queue", "app.web", "worker")
_ALSO_LOADED = ("app.main", "app.sandbox.select", "rich.table", "uvicorn")


class WarmProcess:
    """One command; its end is told on `news`."""

    def __init__(self, news: IO[bytes]) -> None:
        self._news = news
        told = news.readline()
        assert told, "the process that forks has ended: see its standard error"
        self.pid = int(told)
        self.returncode: int | None = None
        self.cpu_s = 0.0
        """Known when it has ended."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, negative for a signal. Raises TimeoutError."""
        if self.returncode is None:
            if not select.select([self._news], [], [], timeout)[0]:
                raise TimeoutError(f"the command still runs after {timeout} s")
            status, self.cpu_s = json.loads(self._news.readline())
            self._news.close()
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except TimeoutError:
            return None

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class WarmCommands:
    """For one thread at a time."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen([sys.executable, "-P", __file__], stdin=theirs, process_group=0)

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        directory: Path,
        *outputs: IO[Any],
        module: str = "app",
    ) -> WarmProcess:
        """`python -m MODULE ARGUMENTS…`; `outputs`: what its standard output and standard error go to."""
        read, write = os.pipe()
        request = json.dumps([module, list(arguments), dict(environment), str(directory)]) + "\n"
        socket.send_fds(self._requests, [request.encode()], [*(one.fileno() for one in outputs), write])
        os.close(write)
        return WarmProcess(os.fdopen(read, "rb", buffering=0))

    def close(self) -> None:
        self._requests.close()
        self._process.wait(timeout=10)


# ------------------------------------------------------------ the process that forks


def _load() -> None:
    """What commands load. Nothing of it starts a thread or reads settings when it is loaded."""
    for name in _LOADED:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not found.name.endswith(".__main__"):
                importlib.import_module(found.name)
    for name in _ALSO_LOADED:
        importlib.import_module(name)
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()  # Else collecting in a forked process copies all these pages.


def _become(
    module: str, arguments: Sequence[str], environment: Mapping[str, str], directory: str
) -> NoReturn:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.argv[1:] = arguments
    code: object = 1
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    # As Python ends, but without taking all loaded modules apart, which takes longer than most commands.
    for thread in threading.enumerate():
        if not (thread.daemon or thread is threading.main_thread()):
            thread.join()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else 1)


class _Forker:
    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._ended, self._wake = socket.socketpair()
        self._wake.setblocking(False)
        self._news: dict[int, int] = {}
        """Where to tell the end of each process, by its pid."""

    def serve(self) -> None:
        """Until the caller closes its end of the socket, or dies; what still runs then ends with it."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno())
        while True:
            ready, _, _ = select.select([self._requests, self._ended], [], [])
            if self._ended in ready:
                self._ended.recv(_CHUNK)
                self._tell_ends()
            if self._requests in ready and not self._fork():
                break
        for pid in self._news:
            os.kill(pid, signal.SIGKILL)

    def _fork(self) -> bool:
        request, outputs, _, _ = socket.recv_fds(self._requests, _CHUNK, 3)
        if not request:
            return False
        while not request.endswith(b"\n"):
            request += self._requests.recv(_CHUNK)
        pid = os.fork()
        if pid == 0:
            self._forget_where_it_came_from(outputs)
            _become(*json.loads(request))
        self._news[pid] = outputs.pop()
        for output in outputs:
            os.close(output)
        os.write(self._news[pid], f"{pid}\n".encode())
        return True

    def _forget_where_it_came_from(self, outputs: Sequence[int]) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, source in enumerate((nothing, *outputs[:2])):
            os.dup2(source, number)
        for number in (nothing, *outputs, *self._news.values()):
            os.close(number)
        for one in (self._requests, self._ended, self._wake):
            one.close()

    def _tell_ends(self) -> None:
        while self._news:
            pid, status, used = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return
            news = self._news.pop(pid)
            os.write(news, json.dumps([status, used.ru_utime + used.ru_stime]).encode() + b"\n")
            os.close(news)


if __name__ == "__main__":
    _load()
    _Forker(socket.socket(fileno=os.dup(0))).serve()
