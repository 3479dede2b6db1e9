"""Paused work goes on where it was: tasks that were under way get a new sandbox with their saved session."""

from __future__ import annotations

from datetime import datetime

from app.db.ci import record_checks_heard
from app.domain.states import SpecState
from worker.flow.rounds import count_rounds
from worker.step import Step


async def run(step: Step) -> datetime:
    """Paused → the state it was in. What people said meanwhile waits for the next sandbox."""
    back = SpecState(step.spec.paused_from or SpecState.QUEUED)
    spec, now = step.spec, step.now()
    # Where no round is allowed without asking, this was the asking for one.
    before = count_rounds(step) + (step.settings.max_rounds == 0)
    values = {"paused_from": None, "pause_asked_by": None, "rounds_before": before}
    async with step.saving(state=back, **values) as session:
        if spec.head_sha is not None:
            await record_checks_heard(session, spec.id, spec.head_sha, now)  # nobody looked meanwhile
    return step.again()
