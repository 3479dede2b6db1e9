"""Takes secrets out of anything that is about to be logged: by their public formats, and by exact value."""

from __future__ import annotations

import re
from typing import Any

MASK = "[secret]"
_MIN_EXACT = 8
"""Shorter values would mask ordinary words; no secret of ours is that short."""

_FORMATS = tuple(
    (sign, re.compile(pattern, re.DOTALL))
    for sign, pattern in (
        # GitHub: classic, fine-grained and stateless tokens.
        ("gh", r"\bgh[a-z]_[A-Za-z0-9._-]{16,}"),
        ("github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{20,}"),
        ("sk-", r"\bsk-(?:ant-[A-Za-z0-9_-]{8,}|[A-Za-z0-9_-]{32,})"),
        # A JSON web token: the App's own JWT has this shape.
        ("eyJ", r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
        ("-----BEGIN", r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
        ("AKIA", r"\bAKIA[0-9A-Z]{16}\b"),
        ("xox", r"\bxox[a-z]-[A-Za-z0-9-]{10,}"),
        ("sha256=", r"\bsha256=[0-9a-f]{64}\b"),
    )
)
"""Each with a part that is always in it: to look for that first takes a tenth of the time, in every line."""
# The user part of a URL, and what follows an authorization scheme.
_URL_USER = re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)")
_SCHEME = re.compile(r"\b(bearer|basic|token)(\s+)[A-Za-z0-9+/=._~-]{12,}", re.IGNORECASE)
_NAMES = re.compile(
    r"(authorization|api[-_]?key|private_key|secret|password|signature|token)$", re.IGNORECASE
)
_BODIES = frozenset({"body", "payload", "content", "prompt", "diff", "headers"})

_exact: set[str] = set()


def register_secret(*values: str | None) -> None:
    """From now on these exact values are masked wherever they show up in a log line. Safe to call twice."""
    for value in values:
        text = (value or "").strip()
        if len(text) >= _MIN_EXACT:
            _exact.add(text)


def redact(text: str) -> str:
    """The same text without any secret known by format or by value. Idempotent."""
    for secret in sorted(_exact, key=len, reverse=True):
        text = text.replace(secret, MASK)
    for sign, pattern in _FORMATS:
        if sign in text:
            text = pattern.sub(MASK, text)
    if "://" in text:
        text = _URL_USER.sub(MASK, text)
    return _SCHEME.sub(rf"\1\2{MASK}", text)


def redact_value(name: str, value: Any) -> Any:
    """One log field: masked by its name, dropped to its length when it is somebody's text, else redacted in depth."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if name in _BODIES:
        return f"[{len(value)} long]" if isinstance(value, str | bytes) else "[left out]"
    if _NAMES.search(name):
        return MASK
    if isinstance(value, dict):
        return {str(key): redact_value(str(key), one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [redact_value("", one) for one in value]
    return redact(value if isinstance(value, str) else str(value))
