"""Processes below this one: found, measured, ended. Linux by /proc, elsewhere by `ps`."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with_parent(number: signal.Signals) -> None:
    """Asks the kernel for `number` when the parent thread ends (Linux; elsewhere nothing happens)."""
    _prctl(_PR_SET_PDEATHSIG, number)


def adopt_orphans() -> None:
    """Makes processes whose parent ended children of this one, so that they can be found (Linux)."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def descendants(root: int | None = None) -> list[int]:
    """Ids of all processes below `root` (default: this one), parents before children."""
    children: dict[int, list[int]] = {}
    for pid, parent in _pairs():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    queue = [os.getpid() if root is None else root]
    while queue:
        below = children.get(queue.pop(0), [])
        found += below
        queue += below
    return found


def end_descendants(grace_s: float = 1.0) -> None:
    """SIGTERM, then after `grace_s` SIGKILL to everything below this process, until nothing is left (10 s at most)."""
    deadline = time.monotonic() + grace_s
    _signal(descendants(), signal.SIGTERM)
    while descendants() and time.monotonic() < deadline:
        time.sleep(0.02)
    deadline = time.monotonic() + 10
    while (left := descendants()) and time.monotonic() < deadline:
        _signal(left, signal.SIGKILL)
        time.sleep(0.02)


def resident_mb() -> int:
    """Memory of this process and all below it, in MB; 0 where it can't be read."""
    pages = 0
    for pid in (os.getpid(), *descendants()):
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm") as file:  # noqa: PTH123
            pages += int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1_000_000


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _pairs() -> list[tuple[int, int]]:
    """(pid, parent's pid) of every process that can be seen; zombies are left out."""
    if not os.path.isdir("/proc/self"):  # noqa: PTH112 - this module starts quickly without pathlib
        listed = subprocess.run(
            ["ps", "-axo", "pid=,ppid="], capture_output=True, text=True, check=False
        ).stdout
        return [(int(pid), int(parent)) for pid, parent in (line.split() for line in listed.splitlines())]
    pairs = []
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                state, parent = file.read().rpartition(b")")[2].split()[:2]
                if state != b"Z":
                    pairs.append((int(name), int(parent)))
    return pairs
