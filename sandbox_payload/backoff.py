"""How long to wait before trying the app again."""

from __future__ import annotations

import random


class Backoff:
    """Doubles from 0.1 s to 5 s with jitter; `reset()` after a success."""

    def __init__(self, first_s: float = 0.1, longest_s: float = 5.0) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._failures = 0

    def reset(self) -> None:
        self._failures = 0

    def next_s(self, at_least_s: float = 0.0) -> float:
        """Seconds to wait now; never less than what the app asked for by `Retry-After`."""
        self._failures = min(self._failures + 1, 10)
        bound: float = min(self._longest_s, self._first_s * 2.0 ** (self._failures - 1))
        return max(at_least_s, random.uniform(bound / 2, bound))
