"""Somebody said something after the work was ready for review and no sandbox is there any more: one more task for it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from app.db.messages import give_up_messages
from app.db.models import Task
from app.db.phases import record_follow_up
from app.db.tasks import move_task
from app.domain.notices import FOLLOW_UP_FAILED, FOLLOW_UP_FAILED_BEGINS
from app.domain.plan import FOLLOW_UP
from app.domain.states import SpecState, TaskState
from worker.flow.answer import owe_failed_answers
from worker.flow.let_go import let_go
from worker.flow.rounds import are_used_up, ask_to_go_on
from worker.step import Step


async def run(step: Step) -> datetime:
    """In review → implementing. What was said waits for the sandbox of the new task, and is handed to it when its row
    is made.
    """
    if are_used_up(step):
        return await ask_to_go_on(step)
    for sandbox in step.sandboxes:
        if sandbox.removed_at is None and sandbox.activity != "working":
            await let_go(step, sandbox, None)  # it waited for words that the new one gets
    notes = [note for note in step.spec.notes if not note.startswith(FOLLOW_UP_FAILED_BEGINS)]
    async with step.saving(state=SpecState.IMPLEMENTING, pull_ready_at=None, notes=notes) as session:
        if not any(is_follow_up(task) and task.state is TaskState.PENDING for task in step.tasks):
            step.tasks.append(await record_follow_up(session, step.spec.id, follow_up_item(step), step.now()))
    return step.again()


def follow_up_item(step: Step, conflict: list[str] | None = None) -> dict[str, Any]:
    """`conflict`: the paths in which the newest round and what a person pushed can't be put together."""
    number = sum(is_follow_up(task) for task in step.tasks) + 1
    item: dict[str, Any] = {
        "id": f"F{number}",
        "title": "Follow what was said about the result",
        "description": "What people said after the work was ready for review.",
        "kind": FOLLOW_UP,
        "files": [],
        "criteria": [],
        "requirements": [],
        "depends_on": [],
        "estimate_hours": 1.0,
    }
    if conflict is not None:
        item |= {"title": "Bring the result together with what was pushed", "conflict": conflict}
    return item


def is_follow_up(task: Task) -> bool:
    return task.detail.get("kind") == FOLLOW_UP


def is_left(task: Task) -> bool:
    """Whether it is still to be done. A follow-up that failed is not, until somebody retries."""
    if is_follow_up(task) and task.state is TaskState.FAILED:
        return False
    return task.state not in {TaskState.COMPLETED, TaskState.CANCELLED}


def goes_on(task: Task) -> bool:
    """It stands for a round on finished work that was cut short."""
    return bool(task.detail.get("goes_on"))


def _way_to_failed(task: Task) -> tuple[TaskState, ...]:
    """Also of one whose sandbox never came about."""
    way = (TaskState.ASSIGNED, TaskState.RUNNING, TaskState.FAILED)
    return way[{TaskState.PENDING: 0, TaskState.ASSIGNED: 1}.get(task.state, 2) :]


async def set_aside(step: Step, text: str) -> datetime:
    """A follow-up that failed takes nothing from the work that is ready for review; it is said, and that is all."""
    async with step.saving(notes=[*step.spec.notes, FOLLOW_UP_FAILED.format(reason=text)]) as session:
        for state in _way_to_failed(step.task):
            await move_task(session, step.task.id, state, step.now())
        if step.sandbox is not None:
            await owe_failed_answers(step, session, step.sandbox, text)
            await give_up_messages(session, step.sandbox.id)
    step.task.state = TaskState.FAILED
    return step.again()
