"""Fair use: how much and how many at once one sandbox may send. Per process, forgotten with it: a cache, no record."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_KEPT = 10_000


@dataclass
class _Level:
    left: float
    at_s: float


class Bucket:
    """A token bucket per key: `rate` units a second, `burst` at once.

    One request may take more than the rest and go below nothing; the next one then waits for it. So nothing is ever
    too big to pass, it only costs time.
    """

    def __init__(self, rate: float, burst: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self.burst = burst
        self._monotonic = monotonic
        self._levels: OrderedDict[str, _Level] = OrderedDict()

    def wait_s(self, key: str, amount: float) -> float:
        """Takes `amount` and returns 0, or takes nothing and returns how long to wait."""
        now = self._monotonic()
        level = self._levels.get(key) or _Level(self.burst, now)
        level.left = min(self.burst, level.left + (now - level.at_s) * self.rate)
        level.at_s = now
        self._levels[key] = level
        self._levels.move_to_end(key)
        if len(self._levels) > _KEPT:
            self._levels.popitem(last=False)
        if level.left <= 0:
            return (1.0 - level.left) / self.rate
        level.left -= amount
        return 0.0


class Slots:
    """How many requests of one key run at once."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._taken: dict[str, int] = {}

    @contextmanager
    def taken(self, key: str) -> Iterator[bool]:
        """Whether there was room; while inside, one place is held if so."""
        count = self._taken.get(key, 0)
        if count >= self.limit:
            yield False
            return
        self._taken[key] = count + 1
        try:
            yield True
        finally:
            rest = self._taken[key] - 1
            if rest:
                self._taken[key] = rest
            else:
                del self._taken[key]
