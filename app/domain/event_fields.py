"""How much of what a sandbox reports is kept, and in which form. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_FIELD = 20_000
"""Characters of one text in an event's data: beyond what people read, and a page of 200 events stays small."""
PLANNING_PREFIX = "spec.phase_"
"""Events whose data is work itself (outputs of phases): never cut. One request bounds them."""
KEPT_WHOLE = frozenset({"full_diff"})
"""Texts that matter as a whole: what was cut of them is kept too, compressed, beside the event."""


@dataclass(frozen=True)
class Shortened:
    """`data` to be stored with the event; `full` the whole texts of those fields that were cut and matter."""

    data: dict[str, Any]
    full: Mapping[str, str] = field(default_factory=dict)


def shorten(event_type: str, data: dict[str, Any]) -> Shortened:
    """Every text of at most MAX_FIELD characters stays as it is; the same data again gives the same."""
    if event_type.startswith(PLANNING_PREFIX):
        return Shortened(data)
    full = {
        name: value
        for name, value in data.items()
        if name in KEPT_WHOLE and isinstance(value, str) and len(value) > MAX_FIELD
    }
    return Shortened({name: _cut(value) for name, value in data.items()}, full)


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        rest = len(value) - MAX_FIELD
        return value if rest <= 0 else f"{value[:MAX_FIELD]}\n… [{rest} more characters]"
    if isinstance(value, dict):
        return {_cut(name): _cut(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_cut(one) for one in value]
    return value
