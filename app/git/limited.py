"""Runs a program under resource limits: `limited.py FILE_BYTES CPU_S MEMORY_BYTES PROGRAM [ARGUMENT …]`.

A program of its own, run by path with the standard library alone: limits set between fork and exec of a process
with threads can hang it, limits set from outside come too late for its first children.
"""

from __future__ import annotations

import os
import resource
import sys


def main(arguments: list[str]) -> None:
    """Lower the limits (never below what is allowed anyway raises nothing) and become the program."""
    file_bytes, cpu_s, memory_bytes = (int(text) for text in arguments[:3])
    wanted = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_CPU: cpu_s,
        # Not the address space: git maps whole packs, and those are the mirror's, not the stranger's.
        resource.RLIMIT_DATA: memory_bytes,
    }
    for kind, limit in wanted.items():
        _, hard = resource.getrlimit(kind)
        allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (allowed, allowed))
    os.execv(arguments[3], arguments[3:])  # noqa: S606 - an argument list, no shell


if __name__ == "__main__":
    main(sys.argv[1:])
