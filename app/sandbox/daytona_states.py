"""What Daytona's states mean here."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """Where a machine stands. UNCLEAR: a state that this version does not know; heartbeats decide."""

    MAKING = "making"
    STARTED = "started"
    HALTED = "halted"
    BROKEN = "broken"
    GOING = "going"
    GONE = "gone"
    UNCLEAR = "unclear"


_STAGES = {
    Stage.MAKING: "creating restoring starting pending_build building_snapshot pulling_snapshot resuming",
    Stage.STARTED: "started resizing snapshotting forking",
    Stage.HALTED: "stopped stopping archived archiving paused pausing",
    Stage.BROKEN: "error build_failed",
    Stage.GOING: "destroying",
    Stage.GONE: "destroyed",
}
_BY_STATE = {state: stage for stage, states in _STAGES.items() for state in states.split()}
STARTABLE = frozenset({"stopped", "archived", "paused"})
"""Where a machine stands still, its files with it."""
BUILDING = frozenset({"pending_build", "building_snapshot", "pulling_snapshot"})
"""An image's first use: minutes, where a start takes a second."""


def state_text(state: object) -> str:
    """The wire's word for a state, whether it comes as an enum or as text."""
    return str(getattr(state, "value", state) or "unknown").lower()


def stage_of(state: object) -> Stage:
    return _BY_STATE.get(state_text(state), Stage.UNCLEAR)
