"""Limits that the kernel keeps for a whole sandbox, where this user may make control groups; nothing where not.

With version 2 the group stands beside the keeper's own, since a group that has processes can't limit groups below it;
with version 1 below it, once for each controller. The keeper's own watching goes on either way.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep

ROOT = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")
_CPU_PERIOD_US = 100_000
_EMPTY_S = 2.0


def make_cgroups(
    name: str, limits: Mapping[str, int], root: Path = ROOT, membership: Path = _MEMBERSHIP
) -> tuple[Path, ...]:
    """Groups called `name` under `limits` (`memory` in bytes, `pids` counting threads, `cpu` in whole processors); a
    process joins by writing 0 into each one's cgroup.procs. Empty where it can't be done.
    """
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return ()
    own = {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}
    if (root / "cgroup.controllers").exists():
        path = root / own.get("", "/").lstrip("/")
        groups = [(path.parent if path != root else path) / name]
        files = _files_v2(limits)
    else:
        groups = [root / each / own[each].lstrip("/") / name for each in ("memory", "pids") if each in own]
        files = {"memory.limit_in_bytes": str(limits["memory"]), "pids.max": str(limits["pids"])}
    return tuple(group for group in groups if _make(group, files))


def _files_v2(limits: Mapping[str, int]) -> Mapping[str, str]:
    return {
        "memory.max": str(limits["memory"]),
        "memory.oom.group": "1",
        "pids.max": str(limits["pids"]),
        "cpu.max": f"{limits['cpu'] * _CPU_PERIOD_US} {_CPU_PERIOD_US}",
    }


def _make(group: Path, files: Mapping[str, str]) -> bool:
    """True when the group is there and keeps at least one limit."""
    try:
        group.mkdir()
    except OSError:
        return False
    kept = 0
    for file, value in files.items():
        with suppress(OSError):
            # Without O_CREAT: a controller that is not enabled here has no such file.
            descriptor = os.open(group / file, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, value.encode())
                kept += 1
            finally:
                os.close(descriptor)
    if not kept:
        remove_cgroups((group,))
    return kept > 0


def ran_out_of_memory(groups: tuple[Path, ...]) -> bool:
    """Whether the kernel killed a process of these groups for want of memory."""
    for group in groups:
        for file in ("memory.events", "memory.oom_control"):
            with suppress(OSError):
                for line in (group / file).read_text().splitlines():
                    if line.startswith("oom_kill ") and int(line.split()[1]) > 0:
                        return True
    return False


def remove_cgroups(groups: tuple[Path, ...]) -> None:
    """Waits a moment for processes that are still on their way out. No-op for groups that are gone; never touches
    anything but control groups.
    """
    end = monotonic() + _EMPTY_S
    for group in groups:
        while group.is_relative_to(ROOT) and group.exists():
            with suppress(OSError):
                group.rmdir()
                break
            if monotonic() >= end:
                break
            sleep(0.02)
