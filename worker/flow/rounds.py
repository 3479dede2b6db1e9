"""How often the result was worked on again by itself; and asking people when that has been enough."""

from __future__ import annotations

from datetime import datetime

from app.db.effects import record_notice
from app.db.models import Task
from app.db.pauses import record_pause
from app.domain.notices import ROUNDS_USED_UP
from app.domain.plan import FOLLOW_UP
from app.domain.states import TaskState
from worker.step import Step

_NOT_BEGUN = frozenset({TaskState.PENDING, TaskState.CANCELLED})


def _is_begun(task: Task) -> bool:
    """One that failed without an attempt stands for a round of a sandbox that waited, which is counted there."""
    return task.state not in _NOT_BEGUN and (task.state is not TaskState.FAILED or task.attempts > 0)


def count_rounds(step: Step) -> int:
    """Rounds after the first result: follow-ups, and what a sandbox that waited for messages has handed in again."""
    follow_ups = [task for task in step.tasks if task.detail.get("kind") == FOLLOW_UP]
    return sum(map(_is_begun, follow_ups)) + count_later_rounds(step)


def count_later_rounds(step: Step) -> int:
    """What sandboxes that waited for messages have handed in again."""
    later = (max(one.collected_round - 1, 0) for one in step.sandboxes if one.task_id is not None)
    return sum(later)


def are_used_up(step: Step) -> bool:
    """Whether there were as many as `max_rounds` allows, since the result or since somebody said to go on."""
    return count_rounds(step) - step.spec.rounds_before >= step.settings.max_rounds


async def ask_to_go_on(step: Step) -> datetime:
    """The work rests; what was said, and checks that failed, wait until somebody lets it go on."""
    spec = step.spec
    key = f"rounds:{spec.id}:{count_rounds(step)}"
    async with step.saving() as session:
        await record_pause(session, spec.id, None, step.now())
        repo = (spec.installation_id, spec.repo_id)
        await record_notice(session, repo, spec.pull_number, key, ROUNDS_USED_UP, step.now())
    return step.again()
