"""Gates: an answer waits at one until a test opens it, so that nobody needs to sleep."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Gates:
    """Named gates, closed at first; an opened one stays open until it is closed again."""

    def __init__(self) -> None:
        self._open: dict[str, asyncio.Event] = {}
        self._waiting: dict[str, list[int]] = {}

    def _gate(self, name: str) -> asyncio.Event:
        return self._open.setdefault(name, asyncio.Event())

    def open(self, name: str) -> None:
        """Let everybody through, now and later."""
        self._gate(name).set()

    def close(self, name: str) -> None:
        """Make whoever comes next wait."""
        self._gate(name).clear()

    @contextmanager
    def queue(self, name: str, request: int) -> Iterator[asyncio.Event]:
        """Register request number `request` as waiting at `name` for as long as the context lasts."""
        waiting = self._waiting.setdefault(name, [])
        waiting.append(request)
        try:
            yield self._gate(name)
        finally:
            waiting.remove(request)

    def to_json(self) -> list[dict[str, object]]:
        """Every gate ever named: whether it is open and which requests (by log number) wait at it."""
        return [
            {"name": name, "open": gate.is_set(), "waiting": list(self._waiting.get(name, []))}
            for name, gate in sorted(self._open.items())
        ]
