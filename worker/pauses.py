"""When to come back after something outside said "not now"."""

from __future__ import annotations

import random
from datetime import datetime

from app.domain.errors import RetryAt
from app.domain.pace import decide_retry_delay
from app.domain.supply import Shortage


class Waits(RetryAt):
    """Not now, and people are told what for."""

    def __init__(self, shortage: Shortage, message: str, at: datetime) -> None:
        super().__init__(message, at)
        self.shortage = shortage


def come_back_at(later: RetryAt, times: int, now: datetime) -> datetime:
    """A limit's end is known. For anything else the pauses grow with `times`, how often it was put off in a row."""
    if later.scope == "installation":
        return later.at
    return max(later.at, now + decide_retry_delay(times, random.random()))
