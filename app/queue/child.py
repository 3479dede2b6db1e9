"""Child processes that cannot outlive their parent, not even one that was killed with -9."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Command:
    """What to run. `parent_death` is the signal the kernel sends it when its parent dies; `stop_signal` asks it to
    end, and after `grace_s` seconds it is killed.
    """

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    cwd: Path | None = None
    grace_s: float = 5.0
    stop_signal: signal.Signals = signal.SIGTERM
    parent_death: signal.Signals = signal.SIGKILL
    output: int | IO[bytes] | None = field(default=None)


class Child:
    """One running process of a Command, in a process group of its own: a terminal's Ctrl-C reaches only the parent,
    which decides the order in which things end.
    """

    def __init__(self, command: Command, process: asyncio.subprocess.Process) -> None:
        self.command = command
        self.process = process

    @classmethod
    async def start(cls, command: Command) -> Child:
        """Raises OSError when the program can't be run. Call it from the main thread: the kernel ties the child to
        the thread that made it.
        """
        argv, tie = tied_to_parent(command.argv, command.parent_death)
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=dict(command.environment),
            cwd=command.cwd,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=command.output,
            stderr=asyncio.subprocess.STDOUT if command.output is not None else None,
            process_group=0,
            preexec_fn=tie,
            limit=1 << 20,
        )
        return cls(command, process)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        return self.process.returncode

    async def wait(self) -> int:
        return await self.process.wait()

    async def stop(self) -> int:
        """Ask it to end, wait for its grace, then kill its whole process group. No-op when it has ended."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(self.command.stop_signal)
            with suppress(TimeoutError):
                async with asyncio.timeout(self.command.grace_s):
                    return await self.process.wait()
            self.kill()
        return await self.process.wait()

    def kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)


def tied_to_parent(argv: Sequence[str], death: signal.Signals) -> tuple[list[str], Callable[[], None] | None]:
    """The command line and the function to run between fork and exec that make a child end with this process.

    Linux lets the kernel do it. Elsewhere a small watcher process (`app.queue.tether`) stands in between.
    """
    if sys.platform != "linux":
        return [sys.executable, "-P", "-m", "app.queue.tether", str(os.getpid()), "--", *argv], None
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def tie() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(death), 0, 0, 0)
        if os.getppid() != parent:
            # The parent died between fork and prctl; nobody would ever tell us.
            os._exit(1)

    return list(argv), tie
