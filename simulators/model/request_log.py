"""What the simulator was asked, kept for assertions: bodies compressed, keys only as fingerprints."""

import hashlib
import json
import time
import zlib
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

MAX_BYTES = 64 * 1024 * 1024  # compressed; the oldest requests go first
_HEADERS = (
    "user-agent",
    "content-type",
    "anthropic-version",
    "anthropic-beta",
    "x-app",
    "x-claude-code-session-id",
    "x-claude-code-agent-id",
)


def fingerprint(key: str) -> str:
    """Twelve hexadecimal digits that tell keys apart without giving them away."""
    return hashlib.sha256(key.encode()).hexdigest()[:12]


@dataclass
class Entry:
    """One request. `outcome` is None while it is being answered.

    `step`: the place served (`t0s3`), `generic`, or `fault:KIND`; `fault`: what went wrong with it.
    """

    number: int
    method: str
    path: str
    headers: dict[str, str]
    auth: dict[str, str | None]
    raw: bytes
    kind: str = "other"
    scenario: str | None = None
    session: str | None = None
    agent: str | None = None
    model: str | None = None
    step: str | None = None
    fault: str | None = None
    status: int | None = None
    outcome: str | None = None
    at: str = field(default_factory=lambda: datetime.now(UTC).isoformat())
    at_monotonic_s: float = field(default_factory=time.monotonic)
    ended_at_monotonic_s: float | None = None

    def end(self, outcome: str) -> None:
        """Record how it ended: `complete`, `cut` or `disconnected`; only the first word counts."""
        if self.outcome is None:
            self.outcome, self.ended_at_monotonic_s = outcome, time.monotonic()

    def body(self) -> Any:
        """The request's body: JSON, or its text when it is none."""
        text = zlib.decompress(self.raw).decode(errors="replace")
        try:
            return json.loads(text)
        except ValueError:
            return text

    def to_json(self, *, with_body: bool) -> dict[str, Any]:
        """The entry as `GET /_sim/requests` shows it."""
        shown = {key: value for key, value in vars(self).items() if key != "raw"}
        return shown | ({"body": self.body()} if with_body else {})


class RequestLog:
    """All requests in order of arrival, numbered from 1."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._bytes = 0
        self._next = 1

    def add(self, method: str, path: str, headers: dict[str, str], raw: bytes) -> Entry:
        """Record a request on its arrival; the caller fills in what becomes known later."""
        scheme, key = credentials_in(headers)
        kept = {name: headers[name] for name in _HEADERS if name in headers}
        auth = {"scheme": scheme, "fingerprint": fingerprint(key) if key else None}
        entry = Entry(self._next, method, path, kept, auth, zlib.compress(raw, 1))
        self._next += 1
        self._entries.append(entry)
        self._bytes += len(entry.raw)
        while self._bytes > MAX_BYTES and len(self._entries) > 1:
            self._bytes -= len(self._entries.popleft().raw)
        return entry

    def select(self, **wanted: str) -> list[Entry]:
        """Entries whose fields have exactly the wanted values."""
        return [e for e in self._entries if all(getattr(e, key) == value for key, value in wanted.items())]

    def clear(self) -> None:
        """Forget all entries; numbers go on."""
        self._entries.clear()
        self._bytes = 0


def credentials_in(headers: dict[str, str]) -> tuple[str, str | None]:
    """The way a request identifies itself (`x-api-key`, `bearer`, `none`) and the key it gave."""
    if "x-api-key" in headers:
        return "x-api-key", headers["x-api-key"]
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return ("bearer", key.strip()) if scheme.lower() == "bearer" and key.strip() else ("none", None)
