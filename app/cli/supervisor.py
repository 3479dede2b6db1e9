"""Keeps child processes running, and ends them in order."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from app.domain.errors import IssuewrightError
from app.observability.logging import get_logger
from app.queue.child import Child, Command

FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0
HEALTHY_AFTER_S = 30.0
"""A part that ran this long starts over with the shortest pause."""
WRONG_SETTINGS = 2

log = get_logger()


class Part(Protocol):
    """Something to keep running."""

    name: str

    @property
    def pid(self) -> int | None: ...

    async def start(self) -> None: ...

    async def wait(self) -> int: ...

    async def stop(self) -> None: ...


class ChildPart:
    """A Part that is a plain child process."""

    def __init__(self, command: Command) -> None:
        self.name = command.name
        self._command = command
        self._child: Child | None = None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    async def start(self) -> None:
        self._child = await Child.start(self._command)

    async def wait(self) -> int:
        return await self._child.wait() if self._child else 0

    async def stop(self) -> None:
        if self._child is not None:
            await self._child.stop()


class Supervisor:
    """Runs parts in the order given, restarts those that die, and stops them in the reverse order.

    A part that exits with 2 says that its settings are wrong: restarting can't help, everything stops.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = list(parts)
        self._watchers: dict[str, asyncio.Task[None]] = {}
        self._stop_asked = asyncio.Event()
        self._exit_code = 0

    async def start(self) -> None:
        """Raises what the first part that can't start raised; call `stop` in any case."""
        for part in self._parts:
            await self._start_part(part)
            self._watchers[part.name] = asyncio.create_task(self._watch(part), name=f"watch-{part.name}")

    def ask_to_stop(self, exit_code: int = 0) -> None:
        self._exit_code = self._exit_code or exit_code
        self._stop_asked.set()

    async def run_until_asked(self) -> int:
        """Returns the exit code when someone asked to stop, or a part gave up."""
        await self._stop_asked.wait()
        return self._exit_code

    async def stop(self) -> None:
        """The last part first; each gets its own grace and is then killed. No-op for what has ended."""
        self._stop_asked.set()
        for part in reversed(self._parts):
            watcher = self._watchers.pop(part.name, None)
            if watcher is not None:
                watcher.cancel()
                with suppress(asyncio.CancelledError):
                    await watcher
            started = time.monotonic()
            await part.stop()
            if watcher is not None:
                log.info("child.stopped", child=part.name, seconds=round(time.monotonic() - started, 2))

    async def _start_part(self, part: Part) -> None:
        await part.start()
        log.info("child.started", child=part.name, pid=part.pid)

    async def _watch(self, part: Part) -> None:
        pause_s = FIRST_PAUSE_S
        while True:
            started = time.monotonic()
            code = await part.wait()
            if code == WRONG_SETTINGS:
                log.error("child.refused", child=part.name, exit_code=code)
                self.ask_to_stop(WRONG_SETTINGS)
                return
            if time.monotonic() - started > HEALTHY_AFTER_S:
                pause_s = FIRST_PAUSE_S
            log.warning("child.died", child=part.name, exit_code=code, restart_in_s=pause_s)
            pause_s = await self._restart(part, pause_s)

    async def _restart(self, part: Part, pause_s: float) -> float:
        """Until it starts; returns the next pause."""
        while True:
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
            try:
                await self._start_part(part)
            except (IssuewrightError, OSError) as error:
                log.warning("child.start_failed", child=part.name, error=str(error), restart_in_s=pause_s)
            else:
                return pause_s


def on_stop_signals(ask: Callable[[], None]) -> None:
    """Calls `ask()` on Ctrl-C, SIGTERM and a closed terminal. Needs the running loop of the main thread."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ask)
