"""Reads the usage out of an answer while it streams by. Never changes or delays a byte.

What it can't read counts conservatively: the answer comes from outside, and a sandbox gains from a broken meter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from app.domain.model_price import Usage

_MAX_TOKENS = 100_000_000
"""Above this a number is absurd."""
_MAX_LINE_BYTES = 4_000_000
_MAX_JSON_BYTES = 40_000_000
_USEFUL_LINES = (b"message_start", b"message_delta", b"usage")


class Meter:
    """Feed it the body; `usage` is what it has read, None when nothing believable. `complete`: the last word is in."""

    def __init__(self, *, streamed: bool) -> None:
        self._streamed = streamed
        self._rest = bytearray()
        self._skipping = False
        self._numbers: dict[str, int] = {}
        self._absurd = False
        self.bytes_seen = 0
        self.complete = False

    @property
    def usage(self) -> Usage | None:
        numbers = self._numbers
        if self._absurd or "input_tokens" not in numbers or "output_tokens" not in numbers:
            return None
        hour = numbers.get("ephemeral_1h_input_tokens", 0)
        return Usage(
            input=numbers["input_tokens"],
            output=numbers["output_tokens"],
            cache_read=numbers.get("cache_read_input_tokens", 0),
            cache_write_5m=max(0, numbers.get("cache_creation_input_tokens", 0) - hour),
            cache_write_1h=hour,
        )

    def feed(self, piece: bytes) -> None:
        self.bytes_seen += len(piece)
        if not self._streamed:
            if len(self._rest) <= _MAX_JSON_BYTES:
                self._rest += piece
            return
        self._rest += piece
        while (end := self._rest.find(b"\n")) >= 0:
            line = bytes(self._rest[:end])
            del self._rest[: end + 1]
            if self._skipping:
                self._skipping = False
            else:
                self._read_line(line.strip())
        if len(self._rest) > _MAX_LINE_BYTES:
            self._rest.clear()
            self._skipping = True

    def finish(self) -> None:
        """The body is over."""
        if not self._streamed:
            message = _parse(bytes(self._rest))
            if message is not None:
                self._note(message.get("usage"))
                self.complete = self.usage is not None

    def _read_line(self, line: bytes) -> None:
        if not line.startswith(b"data:") or not any(word in line for word in _USEFUL_LINES):
            return
        event = _parse(line[5:])
        if event is None:
            return
        message = event.get("message")
        if event.get("type") == "message_start" and isinstance(message, dict):
            self._note(message.get("usage"))
        elif event.get("type") == "message_delta":
            self._note(event.get("usage"))
            self.complete = self.usage is not None

    def _note(self, usage: Any) -> None:
        """Counts are cumulative within an answer: the highest one holds."""
        if not isinstance(usage, Mapping):
            return
        creation = usage.get("cache_creation")
        for name, value in {**usage, **(creation if isinstance(creation, Mapping) else {})}.items():
            if not isinstance(name, str) or not name.endswith("_tokens") or value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_TOKENS:
                self._absurd = True
                continue
            self._numbers[name] = max(self._numbers.get(name, 0), value)


def _parse(raw: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
