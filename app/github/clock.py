"""GitHub's clock as its answers tell it. What we sign must be right by that clock, not by this machine's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import httpx
import structlog

from app.github.access import Clock

_log = structlog.get_logger(__name__)

_BORNE = timedelta(seconds=30)
"""A difference that no signature fails by: the App's is dated a minute back and ends long before GitHub's limit."""
_LAST_YEAR = 3000


class GitHubTime:
    """The time now by GitHub's clock: this machine's, and from a refusal on what that answer said."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = timedelta()

    def __call__(self) -> datetime:
        return self._clock() + self._ahead

    def learn(self, refusal: httpx.Response, signed_at: datetime) -> bool:
        """Whether `refusal` of what was signed at `signed_at` tells a time that explains it: then what is signed anew may
        be taken. Of several refused at once each may be sent again, though the first has told it.
        """
        there = answered_at(refusal)
        if there is None or abs(there - signed_at) <= _BORNE:
            return False
        if abs(there - self()) <= _BORNE:
            return True
        self._ahead = there - self._clock()
        _log.warning(
            "clock.differs",
            ahead_of_github_s=round(-self._ahead.total_seconds()),
            detail="GitHub refused what was signed by this machine's clock; set its time, and keep it with NTP",
        )
        return True


def answered_at(response: httpx.Response) -> datetime | None:
    """When GitHub answered, by its own clock to the second; None where the answer does not tell."""
    try:
        there = parsedate_to_datetime(response.headers.get("date", ""))
    except (ValueError, OverflowError):
        return None
    # Nobody can reckon with a year at the end of the calendar.
    return there.replace(tzinfo=there.tzinfo or UTC) if there.year < _LAST_YEAR else None
