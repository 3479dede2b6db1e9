"""Runs the command line as people do: a process of its own, settings in the environment."""

from __future__ import annotations

import os
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.cli.warm import WarmCommands, WarmProcess

COMMAND = [sys.executable, "-P", "-m", "app"]
_LONGEST_COMMAND_S = 60


def new_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    ).decode()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Answer:
    code: int
    out: str
    err: str
    cpu_s: float


class Issuewright:
    def __init__(self, home: Path, key: str, warm: WarmCommands) -> None:
        self.home = home
        self._warm = warm
        self.port = free_port()
        self.settings: dict[str, str] = {
            "ISSUEWRIGHT_HOME": str(home),
            "GITHUB_APP_ID": "12345",
            "GITHUB_APP_PRIVATE_KEY": key,
            "GITHUB_WEBHOOK_SECRET": "a webhook secret",
            # Nobody listens there: nothing of this may reach a network.
            "GITHUB_API_URL": "http://127.0.0.1:9",
            "GITHUB_URL": "http://127.0.0.1:9",
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
            "PORT": str(self.port),
            "SANDBOX_PROVIDER": "process",
            "LOG_FORMAT": "json",
        }

    def environment(self, **changes: str | None) -> dict[str, str]:
        kept = {
            name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "PYTHONPATH") if name in os.environ
        }
        changed = {**kept, **self.settings, **changes}
        return {name: value for name, value in changed.items() if value is not None}

    def start(self, *arguments: str, outputs: Sequence[IO[Any]], **changes: str | None) -> WarmProcess:
        """The command in a process of its own that has its libraries loaded already."""
        return self._warm.start(arguments, self.environment(**changes), self.home, *outputs)

    def run(self, *arguments: str, **changes: str | None) -> Answer:
        """As `start`, until it has ended."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = self.start(*arguments, outputs=(out, err), **changes)
            try:
                code = process.wait(_LONGEST_COMMAND_S)
            finally:
                process.kill()
            out.seek(0)
            err.seek(0)
            return Answer(code, out.read(), err.read(), process.cpu_s)

    def run_cold(self, *arguments: str, **changes: str | None) -> Answer:
        """The command as people start it, which loads its libraries first."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [*COMMAND, *arguments],
            env=self.environment(**changes),
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=_LONGEST_COMMAND_S,
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Answer(done.returncode, done.stdout, done.stderr, cpu_s)

    @contextmanager
    def up(self) -> Iterator[Up]:
        """`issuewright up`, ready; killed at the end if it still runs."""
        log = self.home / "up.log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [*COMMAND, "up"],
                env=self.environment(),
                cwd=self.home,
                stdout=output,
                stderr=output,
                process_group=0,
            )
        running = Up(process, self.port, log)
        try:
            running.wait_ready()
            yield running
        finally:
            left = running.children()
            process.kill()
            process.wait()
            for pid in left.values():
                kill(pid)


class Up:
    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self.log = log

    def wait_ready(self) -> None:
        until(self.is_ready, "up is not ready:\n" + self.log.read_text())

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            return httpx.get(f"{self.url}/readyz", trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    def children(self) -> dict[str, int]:
        """Pids of the live children by what they are."""
        found: dict[str, int] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, parent = stat.read_text().rsplit(")", 1)[1].split()[:2]
                words = (stat.parent / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            if int(parent) == self.process.pid and state != "Z":
                found[part_of(words)] = int(stat.parent.name)
        return found

    def stop(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=45)


def part_of(words: Sequence[str]) -> str:
    """Which of `up`'s children a command line is: web, worker, redis."""
    return next((name for name, word in (("web", "app.web"), ("worker", "worker")) if word in words), "redis")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def protect(database: Path) -> None:
    """As a file that may not be written, for root too: SQLite writes no file of a format newer than it knows."""
    with closing(sqlite3.connect(database)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with database.open("r+b") as file:
        file.seek(18)
        file.write(b"\x03")


def until(condition: Any, problem: str, within_s: float = 120.0) -> None:
    """A busy machine may take long; what never comes is told in the end."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, problem
        time.sleep(0.05)
