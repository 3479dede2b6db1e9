"""One look at the host's processes: who descends from whom, and how much memory they hold."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_ZOMBIE = b"Z"


@dataclass(frozen=True)
class Entry:
    """`started` orders processes by age (clock ticks since boot; the process id where there is no /proc)."""

    pid: int
    parent: int
    started: int
    rss_bytes: int


def read_table() -> Mapping[int, Entry]:
    """Every process that runs. One that ends meanwhile, or has ended and only waits to be collected, is left out."""
    if (_PROC / "self/stat").exists():
        return {entry.pid: entry for entry in _from_proc()}
    return {entry.pid: entry for entry in _from_ps()}


def _from_proc() -> Iterator[Entry]:
    for name in os.listdir(_PROC):  # noqa: PTH208 - names are all that is wanted
        if not name.isdigit():
            continue
        with suppress(OSError, IndexError, ValueError):
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - hundreds of calls
                text = file.read()
            # The command's name stands in parentheses and may hold anything, also ") 1 ".
            fields = text[text.rindex(b")") + 2 :].split()
            if fields[0] != _ZOMBIE:
                yield Entry(int(name), int(fields[1]), int(fields[19]), int(fields[21]) * _PAGE_BYTES)


def _from_ps() -> Iterator[Entry]:
    listing = subprocess.run(
        ["ps", "-axo", "stat=,pid=,ppid=,rss="], capture_output=True, check=False, timeout=10
    )
    for line in listing.stdout.splitlines():
        with suppress(ValueError):
            state, *numbers = line.split()
            pid, parent, rss_kb = (int(number) for number in numbers)
            if not state.startswith(_ZOMBIE):
                yield Entry(pid, parent, pid, rss_kb * 1024)


def list_descendants(table: Mapping[int, Entry], root: int) -> list[Entry]:
    """Everything below `root`, parents first, without `root` itself."""
    children: dict[int, list[Entry]] = {}
    for entry in table.values():
        children.setdefault(entry.parent, []).append(entry)
    found: list[Entry] = []
    waiting = [root]
    seen = {root}
    while waiting:
        for entry in children.get(waiting.pop(), ()):
            if entry.pid not in seen:
                seen.add(entry.pid)
                found.append(entry)
                waiting.append(entry.pid)
    return found


def find_eldest_child(table: Mapping[int, Entry], parent: int) -> Entry | None:
    children = [entry for entry in table.values() if entry.parent == parent]
    return min(children, key=lambda entry: (entry.started, entry.pid), default=None)


def read_pss_bytes(pid: int) -> int | None:
    """Memory of one process with shared pages counted by share; None when the kernel does not say."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:  # noqa: PTH123 - hundreds of calls
            for line in file:
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return None
