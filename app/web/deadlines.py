"""Time limits for what happens thousands of times a second."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar, cast

Result = TypeVar("Result")


class Deadlines:
    """`asyncio.timeout` for many things with one limit: the first to begin is the first to be late, so one timer of the
    loop is enough (measured: 0.8 µs for each instead of 6, a thirtieth of what receiving a delivery takes).
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._due: dict[asyncio.Task[Any], float] = {}  # in the order of their times
        self._late: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def wait_for(self, work: Awaitable[Result]) -> Result:
        """What comes of `work`. Raises TimeoutError when it takes longer than the limit; it is cancelled then. A task
        waits for one thing at a time.
        """
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._begin(task)
        try:
            return await work
        except asyncio.CancelledError:
            if task in self._late and not task.uncancel():  # else somebody else wants the task to end, too
                raise TimeoutError from None
            raise
        finally:
            self._due.pop(task, None)
            self._late.discard(task)

    def _begin(self, task: asyncio.Task[Any]) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + self._limit_s
        self._due[task] = at
        if self._timer is None:
            self._timer = loop.call_at(at, self._look)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._due:
            task, at = next(iter(self._due.items()))
            if at > loop.time():
                self._timer = loop.call_at(at, self._look)
                return
            del self._due[task]
            self._late.add(task)
            task.cancel()
