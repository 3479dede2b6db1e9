"""Somebody paused it: every sandbox hands over what it has and goes; then the work rests until it is resumed."""

from __future__ import annotations

from datetime import datetime, timedelta

from app.db.models import Sandbox, Task
from app.db.sandboxes import move_sandbox, set_sandbox
from app.db.tasks import move_task
from app.domain.ports import SandboxStatus
from app.domain.states import SANDBOX_LIVE, SandboxState, SpecState, TaskState
from worker.flow.cut_round import is_in_round, record_round_to_go_on
from worker.flow.follow import goes_on
from worker.flow.left import is_handed_in
from worker.flow.let_go import ask_to_stop, fetch_sight, let_go
from worker.flow.lost import handed_in_meanwhile
from worker.flow.rescue import rescue_checkpoint
from worker.step import SLOW, Step

GRACE_S = 20.0
"""For what a sandbox does at its end: commit what is left, hand it over with its session."""
LOOK_S = 0.5


async def run(step: Step) -> datetime:
    """Any live state → paused, once no sandbox is left. What was handed in meanwhile is collected first, by its own
    step. Paused already, it only rests.
    """
    if step.spec.state is SpecState.PAUSED:
        return step.now() + SLOW
    there = [sandbox for sandbox in step.sandboxes if sandbox.removed_at is None]
    if not all([await _gone(step, sandbox) for sandbox in there]):
        return step.later(LOOK_S)
    if any(sandbox.manifest_round > sandbox.collected_round for sandbox in step.sandboxes):
        return step.again()
    back = step.spec.state
    values: dict[str, object] = {}
    if back is SpecState.IN_REVIEW and any(goes_on(task) for task in _pending(step)):
        back, values = SpecState.IMPLEMENTING, {"pull_ready_at": None}
    await step.save(state=SpecState.PAUSED, paused_from=back.value, queued_at=None, **values)
    return step.again()


def _pending(step: Step) -> list[Task]:
    return [task for task in step.tasks if task.state is TaskState.PENDING]


async def _gone(step: Step, sandbox: Sandbox) -> bool:
    """Ask it to end, give it time, take it down. True when it is away; a result that came is left for its own step."""
    now = step.now()
    sight = await fetch_sight(step, sandbox)
    alive = sight.status in {SandboxStatus.RUNNING, SandboxStatus.CREATING}
    if alive and sandbox.stop_asked_at is None:
        await ask_to_stop(step, sandbox, GRACE_S)
        await _record_asked(step, sandbox, now)
        return False
    if alive and now - (sandbox.stop_asked_at or now) < timedelta(seconds=GRACE_S + 5):
        return False
    if sandbox.state in SANDBOX_LIVE and not await is_handed_in(step, sandbox):
        return False
    if await handed_in_meanwhile(step, sandbox):
        # The facts that this step began with do not say so yet: the next step reads them, and collects.
        return False
    if sandbox.state in SANDBOX_LIVE:
        await _save_work(step, sandbox)
    await let_go(step, sandbox, "paused")
    return True


async def _record_asked(step: Step, sandbox: Sandbox, now: datetime) -> None:
    """A round under way on work that is in review belongs to no task: it gets one, so that it goes on afterwards."""
    async with step.saving() as session:
        await set_sandbox(session, sandbox.id, now, stop_asked_at=now)
        if is_in_round(step, sandbox):
            await record_round_to_go_on(step, session)
    sandbox.stop_asked_at = now


async def _save_work(step: Step, sandbox: Sandbox) -> None:
    """It ended without a word: its last checkpoint counts, and its task is to be done again, as no attempt of its own."""
    if sandbox.task_id is not None:
        await rescue_checkpoint(step, sandbox)
    task = next((one for one in step.tasks if one.id == sandbox.task_id), None)
    if task is None or task.state not in {TaskState.ASSIGNED, TaskState.RUNNING}:
        return
    async with step.saving() as session:
        now = step.now()
        if task.state is TaskState.RUNNING:
            await move_task(session, task.id, TaskState.FAILED, now, reason="paused")
        attempts = max(task.attempts - 1, 0)
        await move_task(session, task.id, TaskState.PENDING, now, reason=None, attempts=attempts)
        await move_sandbox(session, sandbox.id, SandboxState.COMPLETED, now, reason="paused")
    task.state, sandbox.state = TaskState.PENDING, SandboxState.COMPLETED
