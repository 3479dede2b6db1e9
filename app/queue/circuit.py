"""A pause after a failure, so that a dead Redis is not asked on behalf of every single fact."""

from __future__ import annotations

import time

PAUSE_S = 1.0


class Circuit:
    """Open (do not try) for one second after each failure. Holds nothing that must outlive the process."""

    def __init__(self, pause_s: float = PAUSE_S) -> None:
        self._pause_s = pause_s
        self._open_until = 0.0

    @property
    def is_open(self) -> bool:
        return time.monotonic() < self._open_until

    def trip(self) -> None:
        self._open_until = time.monotonic() + self._pause_s
