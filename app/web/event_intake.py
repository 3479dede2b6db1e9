"""Events as they come in from a sandbox: checked, made storable, counted. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from app.db.event_texts import compress
from app.db.events import NewEvent
from app.db.models import Sandbox
from app.domain.event_fields import shorten
from app.domain.supply import day_of
from sandbox_payload.wire import Event, EventBatch, EventType

_MAX_DEPTH = 50
_MAX_COUNT = 1_000_000
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_UNSTORABLE = dict.fromkeys([0, *range(0xD800, 0xE000)], _REPLACEMENT)

_E = EventType
WEIGHTY = frozenset(
    {
        _E.STARTED, _E.WAITING, _E.COMPLETED, _E.FAILED, _E.SHUTDOWN, _E.ERROR, _E.PHASE_STARTED, _E.PHASE_RETRY,
        _E.PHASE_COMPLETED, _E.PHASE_FAILED,
    }
)  # fmt: skip
"""Facts a worker should look at now. The others only move the sandbox's counters."""

_ACTIVITY = {
    _E.STARTED: "starting",
    _E.WAITING: "waiting",
    **dict.fromkeys(
        (
            _E.ASSISTANT_MESSAGE, _E.MESSAGE, _E.TOOL_USE, _E.TOOL_COMPLETED, _E.USER_TOOL_RESULT, _E.FILE_EDITED,
            _E.MESSAGE_INJECTED, _E.PHASE_STARTED, _E.PHASE_RETRY,
        ),
        "working",
    ),
}  # fmt: skip

_WITH_COST = frozenset({_E.SYSTEM_MESSAGE, _E.COMPLETED, _E.FAILED})
"""With `cost_usd`: the ends of turns and of rounds."""
_MOST_OF_BUDGET = 2
"""The agent ends at its budget, or one call past it. What says more is made up, and may not use up others' money."""

_batch = TypeAdapter(EventBatch)
_single = TypeAdapter(Event)


def parse_events(body: bytes, now: datetime) -> list[NewEvent]:
    """One event or `{"events": [...]}`. Raises ValueError (also pydantic's ValidationError) when it is neither.

    What PostgreSQL can't hold is replaced rather than refused, since the sandbox could only lose the event: NUL and
    lone surrogates in text, NaN and infinities, nesting deeper than 50. A time far off becomes the time of arrival.
    Long texts are cut; of diffs the whole text comes along, compressed.
    """
    try:
        value = storable(json.loads(body.decode(errors="replace"), parse_constant=lambda _: None))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if isinstance(value, dict) and "events" in value:
        events: Sequence[Event] = _batch.validate_python(value).events
    else:
        events = [_single.validate_python(value)]
    return [_as_new(event, now) for event in events]


def _as_new(event: Event, now: datetime) -> NewEvent:
    short = shorten(event.event_type, event.event_data)
    return NewEvent(
        event.seq,
        event.event_type,
        short.data,
        event.source,
        _sane(event.timestamp, now),
        {name: compress(text) for name, text in short.full.items()},
    )


def storable(value: Any, depth: int = 0) -> Any:
    """`value` with everything replaced that the database can't hold."""
    if isinstance(value, str):
        return value.translate(_UNSTORABLE)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth >= _MAX_DEPTH and isinstance(value, dict | list):
        return "[nested too deeply]"
    if isinstance(value, dict):
        return {storable(name): storable(one, depth + 1) for name, one in value.items()}
    if isinstance(value, list):
        return [storable(one, depth + 1) for one in value]
    return value


def _sane(timestamp: datetime, now: datetime) -> datetime:
    return timestamp if abs(timestamp.year - now.year) <= 5 else now


def note_progress(sandbox: Sandbox, events: Sequence[NewEvent], now: datetime) -> None:
    """Moves the sandbox's counters by its new events. Times are ours, by arrival: its clock is not to be trusted."""
    for event in events:
        sandbox.last_heartbeat_at = now
        if event.event_type == _E.HEARTBEAT:
            sandbox.running = _running(event.event_data)
        else:
            sandbox.last_work_at = now
        sandbox.activity = _ACTIVITY.get(event.event_type, sandbox.activity)  # type: ignore[call-overload]
        turn = event.event_data.get("turns", event.event_data.get("turn"))
        if isinstance(turn, int) and 0 <= turn <= _MAX_COUNT:
            sandbox.turns = max(sandbox.turns, turn)
        if event.event_type == _E.TOOL_USE:
            sandbox.tools = min(sandbox.tools + 1, _MAX_COUNT)
            sandbox.last_tool = _text(event.event_data, "tool_name", "tool", "name") or sandbox.last_tool
        session_id = _text(event.event_data, "session_id")
        if session_id and event.event_type in WEIGHTY and len(session_id) <= 64:
            sandbox.session_id = session_id
    if events:
        sandbox.updated_at = now


def reported_usd(events: Sequence[NewEvent]) -> float:
    """What the agent's own reckoning says that this sandbox has spent so far, the highest of these events; 0 when none
    says it.
    """
    found = [event.event_data.get("cost_usd") for event in events if event.event_type in _WITH_COST]
    return max((one for one in found if isinstance(one, int | float) and one > 0), default=0.0)


def note_reported_spending(sandbox: Sandbox, usd: float, now: datetime) -> None:
    """Of an agent that asks the model past the gateway. Sums of sums: said again, or counted by the gateway as well, it
    is counted once, on the day on which we hear of it.
    """
    believed = min(usd, _MOST_OF_BUDGET * sandbox.budget_usd)
    if believed <= sandbox.spent_usd:
        return
    if (sandbox.last_spent_at or sandbox.created_at) < day_of(now):
        sandbox.spent_before_usd = sandbox.spent_usd
    sandbox.last_spent_at = max(sandbox.last_spent_at or now, now)
    sandbox.spent_usd = believed


def _running(heartbeat: dict[str, Any]) -> str | None:
    """What it says is running, as supervision wants to know it."""
    background = heartbeat.get("background")
    in_background = isinstance(background, int) and background > 0
    return _text(heartbeat, "tool") or ("background" if in_background else None)


def _text(data: dict[str, Any], *names: str) -> str | None:
    return next((value[:200] for name in names if isinstance(value := data.get(name), str) and value), None)
