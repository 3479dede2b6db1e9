"""What of a flood of events is kept: beyond a sandbox's limit only those that say how its work stands. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.db.events import NewEvent
from app.db.models import Sandbox
from app.web.event_intake import WEIGHTY
from sandbox_payload.wire import EventType

KEPT = WEIGHTY | {EventType.HEARTBEAT, EventType.MESSAGE_INJECTED, EventType.INTERRUPTED}
FLOODED = "sandbox.events_dropped"
"""Stored once, in the place of the first event that was passed over."""
_MAX_COUNT = 2**31 - 1


@dataclass(frozen=True)
class Sifted:
    kept: tuple[NewEvent, ...]
    """To be stored."""
    passed_over: tuple[NewEvent, ...]
    """Acknowledged all the same, so that the sandbox does not send them for ever."""

    @property
    def passed_seqs(self) -> frozenset[int]:
        return frozenset(event.seq for event in self.passed_over)


def sift(events: Sequence[NewEvent], sandbox: Sandbox, limit: int) -> Sifted:
    """Events numbered above `limit` count as flood. Moves `sandbox.events_passed_over`."""
    kept = [event for event in events if event.seq <= limit or event.event_type in KEPT]
    passed = sorted(
        (event for event in events if event.seq > limit and event.event_type not in KEPT),
        key=lambda one: one.seq,
    )
    fresh = [event for event in passed if event.seq > sandbox.last_seq]
    if fresh and not sandbox.events_passed_over:
        first = fresh[0]
        data = {"limit": limit, "message": f"After {limit} events only the most important ones are kept."}
        kept.append(NewEvent(first.seq, FLOODED, data, "worker", first.timestamp))
        passed.remove(first)
    sandbox.events_passed_over = min(sandbox.events_passed_over + len(fresh), _MAX_COUNT)
    return Sifted(tuple(kept), tuple(passed))
