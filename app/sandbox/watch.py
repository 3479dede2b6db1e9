"""What ends a sandbox from outside. Each watcher looks at one thing for as long as it runs and reports verdicts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.sandbox.launch import GATEWAY_SOCKET
from app.sandbox.order import KeeperOrder
from app.sandbox.process_table import Entry, list_descendants, read_pss_bytes, read_table
from app.sandbox.state_dir import StateDir

_ANSWER_S = 10.0
_UNCOUNTED = 2
"""Looks at the disk in a row that took too long."""
_BLOCK_BYTES = 1024


@dataclass(frozen=True)
class Verdict:
    """The sandbox is to end: `reason` as in state_dir.Ending; the payload gets `grace_s` to wrap up, or none."""

    reason: str
    grace_s: float


Report = Callable[[Verdict], None]


async def watch_stop(directory: StateDir, order: KeeperOrder, report: Report) -> None:
    """Stop requests on disk; a later one with a shorter grace is reported too."""
    seen: float | None = None
    while True:
        asked = directory.read_stop()
        if asked is not None and asked.grace_s != seen:
            seen = asked.grace_s
            report(Verdict("stopped", asked.grace_s))
        await asyncio.sleep(order.pace.look_s / 2)


async def watch_clock(order: KeeperOrder, report: Report) -> None:
    await asyncio.sleep(order.time_limit_s + order.pace.wall_margin_s)
    report(Verdict("wall_clock", order.pace.grace_s))


async def watch_processes(order: KeeperOrder, root: int, report: Report) -> None:
    """Number and memory of everything below `root`. Resident sizes are cheap and count shared pages too often, so
    only a sum over the limit is checked against proportional sizes.
    """
    limit_bytes = order.memory_gb * order.pace.gb_bytes
    while True:
        inside = list_descendants(read_table(), root)
        if len(inside) > order.pace.max_processes:
            report(Verdict("processes", 0))
            return
        if sum(entry.rss_bytes for entry in inside) > limit_bytes and _proportional(inside) > limit_bytes:
            report(Verdict("memory", 0))
            return
        await asyncio.sleep(order.pace.look_s)


def _proportional(entries: list[Entry]) -> int:
    total = 0
    for entry in entries:
        pss = read_pss_bytes(entry.pid)
        total += entry.rss_bytes if pss is None else pss
    return total


async def watch_disk(order: KeeperOrder, folders: tuple[Path, ...], report: Report) -> None:
    """What the sandbox wrote. Big trees are looked at less often, so that looking takes a twentieth of the time."""
    limit_bytes = order.disk_gb * order.pace.gb_bytes
    uncounted = 0
    while True:
        started = time.monotonic()
        used = await _used_bytes(folders, order.pace.disk_count_s)
        uncounted = uncounted + 1 if used is None else 0
        if uncounted == _UNCOUNTED or (used is not None and used > limit_bytes):
            report(Verdict("disk", 0))
            return
        pause_s = 0.0 if used is None else 20 * (time.monotonic() - started)
        await asyncio.sleep(max(order.pace.disk_look_s, pause_s))


async def _used_bytes(folders: tuple[Path, ...], limit_s: float) -> int | None:
    """By du, which copes with trees of any depth, counts hard links once and follows no links. None: it took too long."""
    process = await asyncio.create_subprocess_exec(
        "du", "-skx", "--", *(str(folder) for folder in folders),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(limit_s):
            output, _ = await process.communicate()
    except BaseException as error:
        with suppress(ProcessLookupError):  # it has just ended
            process.kill()
        await process.wait()
        if isinstance(error, TimeoutError):
            return None
        raise
    return sum(int(line.split()[0]) * _BLOCK_BYTES for line in output.splitlines() if line[:1].isdigit())


async def watch_app(order: KeeperOrder, report: Report) -> None:
    """Whether the app answers on its socket, with whatever status; each sandbox ends when it stays away."""
    heard = time.monotonic()
    while True:
        if await _answers(Path(order.socket_dir) / GATEWAY_SOCKET):
            heard = time.monotonic()
        elif time.monotonic() - heard > order.pace.app_silence_s:
            report(Verdict("app_gone", order.pace.grace_s))
            return
        await asyncio.sleep(order.pace.app_look_s)


async def _answers(socket_path: Path) -> bool:
    try:
        async with asyncio.timeout(_ANSWER_S):
            reader, writer = await asyncio.open_unix_connection(str(socket_path))
            try:
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                await writer.drain()
                return bool(await reader.read(1))
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


async def watch_all(
    order: KeeperOrder, directory: StateDir, root: int, report: Report
) -> tuple[asyncio.Task[None], ...]:
    """Every watcher of a running payload, as tasks; the caller cancels them."""
    folders = (directory.work, directory.state, directory.tmp, directory.home)
    watchers: tuple[Awaitable[None], ...] = (
        watch_clock(order, report),
        watch_processes(order, root, report),
        watch_disk(order, folders, report),
        watch_app(order, report),
    )
    return tuple(asyncio.ensure_future(watcher) for watcher in watchers)
