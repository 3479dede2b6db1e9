"""A payload that a keeper has started and not yet let go: it loads, and waits for its work.

Its output waits in a pipe until somebody reads it; there is little before it is let go.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.sandbox.cgroup import make_cgroups, remove_cgroups
from app.sandbox.launch import plan_launch, variables_of
from app.sandbox.order import KeeperOrder
from app.sandbox.state_dir import StateDir


@dataclass(frozen=True)
class HeldPayload:
    """`output` is the reading end of its output, the caller's to close."""

    process: asyncio.subprocess.Process
    cgroups: tuple[Path, ...]
    output: int
    _app_url: str
    _release: int

    @classmethod
    async def start(cls, order: KeeperOrder, directory: StateDir) -> HeldPayload:
        """Of `order`, only what says how large and how walled off it is; in `directory`, whatever that is called later.
        Raises OSError.
        """
        wanted = {
            "memory": order.memory_gb * order.pace.gb_bytes,
            "pids": order.pace.max_threads,
            "cpu": max(1, order.cpu),
        }
        cgroups = make_cgroups(f"issuewright-{directory.name.lstrip('.')}-{os.getpid()}", wanted)
        try:
            directory.write_cgroups(cgroups)
            launch = plan_launch(order, directory, cgroups)
            # A pipe of our own: asyncio's wait() would wait for everybody who holds the other end, orphans too.
            output, writing = os.pipe()
            reading, release = os.pipe()
            try:
                process = await asyncio.create_subprocess_exec(
                    *launch.argv,
                    env=launch.environment,
                    cwd=launch.cwd,
                    stdin=reading,
                    stdout=writing,
                    stderr=writing,
                    start_new_session=True,
                )
            finally:
                os.close(writing)
                os.close(reading)
        except BaseException:
            remove_cgroups(cgroups)
            raise
        return cls(process, cgroups, output, launch.app_url, release)

    def let_go(self, order: KeeperOrder) -> None:
        """Once. One that has ended meanwhile shows that by its exit code."""
        told = json.dumps(dict(variables_of(order, self._app_url))).encode()
        with suppress(BrokenPipeError):
            os.write(self._release, told)
        os.close(self._release)
