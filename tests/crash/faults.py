"""What is done to the running product: processes killed or held, storage taken away; and how long it took to settle."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import redis

from tests.flow.repository import Repository
from tests.flow.world import World

SETTLE_S = 30.0
"""From the last fault to rest, on a machine that is idle otherwise."""


def _is_keeper(words: Sequence[str]) -> bool:
    return "app.sandbox.keeper" in words


def _keeps_spare(pid: int, words: Sequence[str]) -> bool:
    """Unless it has become the keeper of a sandbox with a name: one that is on its way out has none either."""
    if "--spare" not in words:
        return False
    sandboxes = Path(words[words.index("--spare") + 1]).parent
    return str(pid) not in {path.read_text() for path in sandboxes.glob("[!.]*/keeper.pid")}


def _is_payload(words: Sequence[str]) -> bool:
    """Not the forwarder or the wall that start it, though their command lines end with its."""
    python = Path(words[0]).name.startswith("python")
    return python and "sandbox_payload" in words and "sandbox_payload.forwarder" not in words


def _is_agent(words: Sequence[str]) -> bool:
    return Path(words[0]).name == "claude"


_SANDBOX_PARTS = {"keeper": _is_keeper, "payload": _is_payload, "agent": _is_agent}
"""By their command lines."""


def restart(world: World, arms: str, **settings: str) -> None:
    """The product anew, with these points armed."""
    world.shut_down()
    world.forget_crashes()
    world.start_up(CRASH_POINTS=arms, **settings)


def armed(points: Iterable[str], action: str = "kill") -> str:
    return ",".join(f"{point}={action}" for point in points)


def settle(world: World, kit: Repository, *, faulted_at: float | None = None) -> float:
    """Wait for rest; the seconds since `faulted_at`, else since the last point acted. Fails when it took too long."""
    kit.rest()
    ended = time.time()
    marks = [path.stat().st_mtime for path in (world.home / "state" / "crashed").glob("*")]
    began = faulted_at if faulted_at is not None else max(marks, default=ended)
    return within_limit(max(0.0, ended - began))


def within_limit(taken_s: float) -> float:
    """`taken_s`; fails when it is too long."""
    limit_s = SETTLE_S * _load_factor()
    assert taken_s <= limit_s, f"settled in {taken_s:.1f} s, allowed are {limit_s:.0f} s"
    return taken_s


def _load_factor() -> float:
    """How much longer things take here than on a machine of two cores with one test each. At most tripled."""
    per_core = os.getloadavg()[0] / (os.cpu_count() or 1)
    return min(3.0, max(1.0, per_core / 1.5))


def stands_still(world: World, point: str, part: str = "worker") -> int:
    """Wait until that part (worker or web) has stopped at this point; its pid."""

    def look() -> int | None:
        pid = world.children().get(part)
        return pid if point in world.crashed() and pid and _state(pid) == "T" else None

    return world.wait(look, f"a {part} standing still at {point}")


def go_on(pid: int) -> None:
    os.kill(pid, signal.SIGCONT)


def kill_part(world: World, part: str) -> None:
    """web, worker or redis; the Redis comes back empty."""
    pid = world.children().get(part)
    if pid is not None:  # None: dead of the blow before, and not back yet
        with suppress(ProcessLookupError):  # noticed by nobody so far
            os.kill(pid, signal.SIGKILL)


def sandbox_process(world: World, part: str) -> int | None:
    """Pid of this world's newest keeper, payload or agent; not of a sandbox that nobody has ordered yet."""
    fits = _SANDBOX_PARTS[part]
    found = []
    parents: dict[int, int] = {}
    lines: dict[int, list[str]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rsplit(")", 1)[1].split()[1])
            words = (stat.parent / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except (OSError, IndexError):
            continue
        parents[int(stat.parent.name)], lines[int(stat.parent.name)] = parent, words
    ours = {pid for pid, words in lines.items() if any(str(world.home) in word for word in words)}
    spares = {pid for pid, words in lines.items() if _keeps_spare(pid, words)}
    for pid, words in lines.items():
        line = _ancestry(pid, parents)
        if line & ours and not line & spares and fits(words):
            found.append(pid)
    return max(found, default=None)


def _ancestry(pid: int, parents: Mapping[int, int]) -> set[int]:
    """It and everything above it."""
    line = set()
    while pid > 1 and pid not in line:
        line.add(pid)
        pid = parents.get(pid, 0)
    return line


def kill_in_sandbox(world: World, part: str) -> None:
    os.kill(world.wait(lambda: sandbox_process(world, part), f"a running {part}"), signal.SIGKILL)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def flush_redis(world: World) -> None:
    with redis.Redis.from_url(world.environment["REDIS_URL"]) as client:
        client.flushall()


@contextmanager
def database_refusing(world: World) -> Iterator[None]:
    """Nobody else can write while this lasts (SQLite)."""
    connection = sqlite3.connect(world.home / "state" / "issuewright.db", timeout=20, isolation_level=None)
    try:
        connection.execute("BEGIN EXCLUSIVE")
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.close()
