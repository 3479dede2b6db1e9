"""What the sandbox tests share: a repository with its mirror, a stub of the app, waiting with deadlines."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.domain.ports import Sandboxes, SandboxOrder, SandboxSight, SandboxStatus
from app.sandbox.order import Pace
from app.sandbox.state_dir import StateDir

PACE = Pace(
    look_s=0.1,
    disk_look_s=0.2,
    app_look_s=0.2,
    app_silence_s=60,
    wall_margin_s=60,
    grace_s=2,
    gb_bytes=256 * 1024**2,
)

_GIT_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
       for what, value in (("NAME", "Carol"), ("EMAIL", "carol@example.com"))},
}  # fmt: skip


def git(*arguments: str, cwd: Path) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=cwd, env=_GIT_ENVIRONMENT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def bwrap_works() -> bool:
    binary = shutil.which("bwrap")
    command = [str(binary), "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    return binary is not None and subprocess.run(command, capture_output=True, check=False).returncode == 0


@dataclass
class Source:
    """A repository made for a test, and its bare mirror as the worker keeps one."""

    tree: Path
    mirror: Path

    def commit(self, files: Mapping[str, bytes | None], *, branch: str = "main") -> str:
        git("checkout", "-q", "-B", branch, cwd=self.tree)
        for name, data in files.items():
            path = self.tree / name
            if data is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        git("add", "-A", cwd=self.tree)
        git("commit", "-q", "--allow-empty", "-m", "change", cwd=self.tree)
        git("push", "-q", "--force", str(self.mirror), f"HEAD:refs/heads/{branch}", cwd=self.tree)
        return git("rev-parse", "HEAD", cwd=self.tree)


@dataclass
class App:
    """Answers every request on both sockets with `word`, and notes the request lines."""

    socket_dir: Path
    word: str = "first"
    requests: list[str] = field(default_factory=list)
    servers: list[asyncio.Server] = field(default_factory=list)

    async def start(self) -> None:
        for name in ("gateway.sock", "proxy.sock"):
            self.servers.append(await asyncio.start_unix_server(self._answer, str(self.socket_dir / name)))

    async def stop(self) -> None:
        for server in self.servers:
            server.close()
            await server.wait_closed()
        self.servers.clear()
        for name in ("gateway.sock", "proxy.sock"):
            (self.socket_dir / name).unlink(missing_ok=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.requests.append(head.split(b"\r\n")[0].decode())
            body = self.word.encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            await writer.drain()
        writer.close()


async def delete_all(provider: Sandboxes) -> None:
    for sight in await provider.list_owned():
        await provider.ensure_deleted(sight.name)


OrderOf = Callable[..., SandboxOrder]


@dataclass
class Look:
    """Waits for facts about one sandbox, each with a deadline."""

    provider: Sandboxes
    directory: StateDir

    async def until(self, holds: Callable[[], Any], what: str, seconds: float = 20) -> Any:
        end = time.monotonic() + seconds
        while not (value := holds()):
            if time.monotonic() > end:
                sight = await self.provider.fetch_sight(self.directory.name)
                log = await self.provider.fetch_log(self.directory.name)
                keeper = self.directory.keeper_log.read_text() if self.directory.keeper_log.exists() else ""
                raise AssertionError(f"no {what} within {seconds} s: {sight}\n{log.decode()}\n{keeper}")
            await asyncio.sleep(0.02)
        return value

    async def ended(self, seconds: float = 20) -> SandboxSight:
        await self.until(lambda: not self.directory.keeper_lives(), "ending", seconds)
        sight = await self.provider.fetch_sight(self.directory.name)
        assert sight.status not in {SandboxStatus.CREATING, SandboxStatus.RUNNING}
        return sight

    async def report(self, seconds: float = 20) -> dict[str, Any]:
        path = self.directory.state / "report.json"
        await self.until(path.exists, "report", seconds)
        facts: dict[str, Any] = json.loads(path.read_text())
        return facts


def processes_with(text: str) -> list[int]:
    """Processes of the host whose command line holds `text`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(OSError):
                if text.encode() in entry.joinpath("cmdline").read_bytes().replace(b"\0", b" "):
                    found.append(int(entry.name))
    return found


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
