"""Paused work goes on where it was: tasks that were under way get a new sandbox with their saved session."""

from __future__ import annotations

from datetime import datetime

from app.domain.states import SpecState
from worker.flow.rounds import count_rounds
from worker.step import Step


async def run(step: Step) -> datetime:
    """Paused → the state it was in. What people said meanwhile waits for the next sandbox."""
    back = SpecState(step.spec.paused_from or SpecState.QUEUED)
    await step.save(state=back, paused_from=None, pause_asked_by=None, rounds_before=count_rounds(step))
    return step.again()
