"""One table: what an error of Daytona's SDK means and when to try again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from app.domain.errors import Denied, Gone, OutsideError, Refused, RetryAt, Unexpected

BUSY = timedelta(seconds=10)
QUOTA = timedelta(seconds=60)
LONGEST = timedelta(minutes=15)
"""Whatever a header says: a wait that is too long costs more than one refused call."""

NETWORK_FIXED = "network_fixed"
"""Code of Refused: the organization's tier has a fixed network; no allow list may be sent."""
SNAPSHOT_ASLEEP = "snapshot_inactive"

_QUOTA = re.compile(r"\btotal\b.{0,40}\b(limit|quota)\b|\bquota\b", re.IGNORECASE)
_FIXED = re.compile(r"network access is restricted", re.IGNORECASE)
_ASLEEP = re.compile(r"snapshot\b.{0,200}\b(inactive|not active)", re.IGNORECASE | re.DOTALL)
_RETRY_AFTER = re.compile(r"retry-after(-[a-z-]+)?")
_RESET = re.compile(r"x-ratelimit-reset(-[a-z-]+)?")


def classify(error: Exception, now: datetime) -> OutsideError:
    """The error to raise instead of an SDK error, by its `status_code`, `headers` and text. Nothing in the answer is
    trusted beyond that: it may be a proxy's.
    """
    status = getattr(error, "status_code", None)
    text = _text(error)
    if status == 429:
        return RetryAt(f"Daytona asks to wait: {text}", now + _pause(getattr(error, "headers", {})))
    if status in {400, 402, 403, 409, 422} and _QUOTA.search(text):
        return RetryAt(f"Daytona's quota is used up: {text}", now + QUOTA)
    if status == 401:
        return Denied(f"Daytona refuses DAYTONA_API_KEY: {text}", reason="sandbox_key")
    if status == 403:
        return Denied(
            f"DAYTONA_API_KEY may not do this (it needs write:sandboxes and delete:sandboxes): {text}",
            reason="sandbox_key",
        )
    if status in {404, 410}:
        return Gone(text)
    if status in {400, 422}:
        return Refused(f"Daytona refuses: {text}", code=_code(text))
    if status is None or status in {408, 409} or status >= 500:
        return RetryAt(f"Daytona: {text}", now + BUSY)
    return Unexpected(f"Daytona answered {status}: {text}")


def _code(text: str) -> str:
    if _FIXED.search(text):
        return NETWORK_FIXED
    return SNAPSHOT_ASLEEP if _ASLEEP.search(text) else "request"


def _pause(headers: Mapping[str, Any]) -> timedelta:
    """The longest wait that a throttler's headers name (seconds); header names come in any case."""
    waits = [
        float(value)
        for name, value in headers.items()
        if (_RETRY_AFTER.fullmatch(name.lower()) or _RESET.fullmatch(name.lower()))
        and re.fullmatch(r"\d{1,9}(\.\d{1,6})?", str(value).strip())
    ]
    if not waits:
        return BUSY
    return min(max(timedelta(seconds=max(waits)), timedelta(seconds=1)), LONGEST)


def _text(error: Exception) -> str:
    """One line of at most 300 characters."""
    return " ".join(str(error).split())[:300] or type(error).__name__
