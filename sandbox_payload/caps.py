"""Keeps one event below the size the app takes, and its text fit for JSON, UTF-8 and a database."""

from __future__ import annotations

import json
from typing import Any

MAX_STRING_BYTES = 200_000
MAX_EVENT_BYTES = 900_000
"""Below the contract's 1 MB for a request, with room for the frame around one event."""
_MAX_DEPTH = 24
_MAX_ITEMS = 2_000
_SHRINKING_LIMITS = (MAX_STRING_BYTES, 50_000, 10_000, 1_000, 100)


def clean_text(text: str) -> str:
    """`text` without lone surrogates and NUL, which UTF-8 and PostgreSQL refuse."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "\ufffd")


def capped_text(text: str, limit_bytes: int = MAX_STRING_BYTES) -> str:
    """At most `limit_bytes` of UTF-8; what is cut from the middle is counted in a note."""
    text = clean_text(text)
    if len(text) * 4 <= limit_bytes:
        return text
    raw = text.encode()
    if len(raw) <= limit_bytes:
        return text
    head, tail = raw[: limit_bytes * 3 // 4], raw[len(raw) - limit_bytes // 4 :]
    note = f"\n[… {len(raw) - len(head) - len(tail)} bytes left out …]\n"
    return head.decode(errors="ignore") + note + tail.decode(errors="ignore")


def capped(value: Any, limit_bytes: int = MAX_STRING_BYTES, depth: int = 0) -> Any:
    """`value` as plain JSON data whose every string is at most `limit_bytes` long."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None  # noqa: PLR0124 - NaN
    if isinstance(value, str):
        return capped_text(value, limit_bytes)
    if isinstance(value, bytes):
        return capped_text(value.decode(errors="replace"), limit_bytes)
    if depth >= _MAX_DEPTH:
        return "[… nested too deeply …]"
    if isinstance(value, dict):
        items = list(value.items())[:_MAX_ITEMS]
        return {capped_text(str(key), 1_000): capped(item, limit_bytes, depth + 1) for key, item in items}
    if isinstance(value, list | tuple | set | frozenset):
        return [capped(item, limit_bytes, depth + 1) for item in list(value)[:_MAX_ITEMS]]
    return capped_text(str(value), limit_bytes)


def event_json(data: dict[str, Any]) -> str:
    """`data` as JSON of at most MAX_EVENT_BYTES, cut harder and harder until it fits."""
    for limit in _SHRINKING_LIMITS:
        text = json.dumps(capped(data, limit), ensure_ascii=False, separators=(",", ":"))
        if len(text) * 4 <= MAX_EVENT_BYTES or len(text.encode()) <= MAX_EVENT_BYTES:
            return text
    return json.dumps({"left_out": "the data of this event was too large", "keys": list(data)[:50]})
