"""Time limits for what happens thousands of times a second."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

Result = TypeVar("Result")


class Deadlines:
    """`asyncio.timeout` for many things with one limit: the first to begin is the first to be late, so one timer of the
    loop is enough (measured: 0.8 µs for each instead of 6, a thirtieth of what receiving a delivery takes).
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._due: dict[Callable[[], None], float] = {}  # in the order of their times
        self._timer: asyncio.TimerHandle | None = None

    async def wait_for(self, work: Awaitable[Result]) -> Result:
        """What comes of `work`. Raises TimeoutError when it takes longer than the limit; it is cancelled then."""
        task = cast("asyncio.Task[object]", asyncio.current_task())
        late = False

        def end() -> None:
            nonlocal late
            late = True
            task.cancel()

        self._begin(end)
        try:
            return await work
        except asyncio.CancelledError:
            if late and not task.uncancel():  # else somebody else wants the task to end, too
                raise TimeoutError from None
            raise
        finally:
            self._due.pop(end, None)

    def _begin(self, end: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + self._limit_s
        self._due[end] = at
        if self._timer is None:
            self._timer = loop.call_at(at, self._look)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._due:
            end, at = next(iter(self._due.items()))
            if at > loop.time():
                self._timer = loop.call_at(at, self._look)
                return
            del self._due[end]
            end()
