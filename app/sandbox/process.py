"""Sandboxes that are none: the payload as a plain process of this host. Never chosen silently, only when named.

It sees everything that the app's user sees. What is kept: an environment and a home of its own, limits on size, number
and time, and an end when the keeper or the app ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from contextlib import suppress
from pathlib import Path

from app.domain.ports import Probe
from app.sandbox.local import LocalHost, LocalSandboxes
from app.sandbox.order import Isolation
from app.sandbox.process_table import read_table
from app.sandbox.state_dir import StateDir

WARNING = (
    "SANDBOX_PROVIDER=process isolates nothing: the agent, and whatever it runs, can read and change all that this "
    "user can. Use it only where every issue and every line of code is yours."
)

_log = logging.getLogger(__name__)


class ProcessSandboxes(LocalSandboxes):
    kind = Isolation.PROCESS.value
    isolation = Isolation.PROCESS

    def __init__(self, host: LocalHost) -> None:
        super().__init__(host)
        _log.warning(WARNING)

    async def probe(self) -> Probe:
        await asyncio.to_thread(self._remove_leftovers)
        return Probe(ok=True, detail=WARNING)

    async def _bwrap(self) -> tuple[str, ...]:
        return ()

    def _kill_strays(self, directory: StateDir) -> None:
        """Processes that carry this sandbox's token file in their environment; without /proc, the payload's group
        while its leader lives (a group without its leader might be somebody else's by now).
        """
        mark = b"SANDBOX_TOKEN_FILE=" + os.fsencode(directory.token)
        if Path("/proc/self/environ").exists():
            for pid in read_table():
                with suppress(OSError):
                    if mark in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                        os.kill(pid, signal.SIGKILL)
            return
        started = directory.read_started()
        if started is not None and started.pid in read_table():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(started.pid, signal.SIGKILL)
