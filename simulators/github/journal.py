"""What was asked of the simulated GitHub: the request log."""

import time
from dataclasses import dataclass, field
from typing import Any

MAX_ENTRIES = 50_000
WRITES = ("POST", "PUT", "PATCH", "DELETE")


@dataclass
class Entry:
    """One request. ``at`` is a monotonic clock in seconds, for distances between requests."""

    number: int
    kind: str
    method: str
    path: str
    query: str
    at: float
    time: str
    caller: dict[str, Any] | None = None
    body: Any = None
    status: int = 0
    duration_s: float = 0.0
    fault: int | None = None


@dataclass
class Journal:
    """Entries, oldest first; the oldest fall out beyond 50,000. Never holds a token."""

    entries: list[Entry] = field(default_factory=list)
    _count: int = 0

    def open(self, kind: str, method: str, path: str, query: str, moment: str) -> Entry:
        """Writes down the beginning of a request."""
        self._count += 1
        entry = Entry(self._count, kind, method, path, query, time.monotonic(), moment)
        self.entries.append(entry)
        del self.entries[:-MAX_ENTRIES]
        return entry

    def select(
        self, kind: str | None = None, method: str | None = None, after: int = 0
    ) -> list[dict[str, Any]]:
        """Entries as JSON."""
        return [
            dict(vars(entry))
            for entry in self.entries
            if kind in (None, entry.kind) and method in (None, entry.method) and entry.number > after
        ]

    def writes(self) -> list[Entry]:
        """Requests that change something on GitHub: REST and GraphQL writes that succeeded, minting apart."""
        return [entry for entry in self.entries if entry.status < 400 and is_write(entry)]


def is_write(entry: Entry) -> bool:
    """Whether a request changes something: not a read, not a token, not a GraphQL query, not git's reading."""
    if entry.kind == "git":
        return entry.method == "POST" and entry.path.endswith("git-receive-pack")
    if entry.kind == "graphql":
        return isinstance(entry.body, dict) and "mutation" in str(entry.body.get("query", ""))
    quiet = entry.path.endswith(("/access_tokens", "/attempts", "/installation/token", "/conversions"))
    return entry.kind == "rest" and entry.method in WRITES and not quiet
