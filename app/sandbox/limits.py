"""Runs a program that ends with its keeper and under resource limits: `limits.py LIMITS_JSON PROGRAM [ARGUMENT …]`.

A program of its own, run by path with the standard library alone: what is set between fork and exec of a larger
process can hang it. The address space is not limited: the agent's CLI maps far more than it uses.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Limits:
    """`parent` is the keeper's process id, `death_signal` what its end sends; `processes` counts threads of the user,
    and the kernel does not apply it to root, for whom the keeper's own count stands in.
    """

    parent: int
    death_signal: int
    file_bytes: int
    cpu_s: int
    cpus: int
    processes: int
    cgroups: tuple[str, ...] = ()
    open_files: int = 65_536
    nice: int = 10
    """Its keeper, the app and the people of this host come first."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def user_threads() -> int:
    """Threads this user runs on the whole host, which the process limit counts too."""
    total = 0
    for name in os.listdir("/proc") if sys.platform == "linux" else ():  # noqa: PTH208 - names are all that is wanted
        if not name.isdigit():
            continue
        with suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == os.getuid():  # noqa: PTH116 - hundreds of calls
                total += len(os.listdir(f"/proc/{name}/task"))  # noqa: PTH208
    return total


def become_subreaper() -> None:
    """Orphans among this process's descendants are handed to it from now on (and stay below it in the process
    table); kept over exec. Linux only, a no-op elsewhere.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (allowed, allowed))


def _apply(limits: Limits) -> None:
    for group in limits.cgroups:
        with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:  # noqa: PTH123
            file.write("0")
    os.nice(limits.nice)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, limits.file_bytes)
    _limit(resource.RLIMIT_CPU, limits.cpu_s)
    _limit(resource.RLIMIT_NOFILE, limits.open_files)
    _limit(resource.RLIMIT_NPROC, limits.processes)
    if sys.platform != "linux":
        return
    # When memory runs out on the host, the kernel is to take a sandbox before anything else.
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:  # noqa: PTH123
        file.write("500")
    usable = sorted(os.sched_getaffinity(0))
    if 0 < limits.cpus < len(usable):
        first = os.getpid() % len(usable)
        os.sched_setaffinity(0, {usable[(first + step) % len(usable)] for step in range(limits.cpus)})
    become_subreaper()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, limits.death_signal, 0, 0, 0)


def main(arguments: list[str]) -> None:
    limits = Limits(**json.loads(arguments[0]))
    _apply(limits)
    # The keeper may have died before the kernel was told to watch it.
    if os.getppid() != limits.parent:
        os.kill(os.getpid(), signal.SIGKILL)
    os.execv(arguments[1], arguments[1:])  # noqa: S606 - an argument list, no shell


if __name__ == "__main__":
    main(sys.argv[1:])
