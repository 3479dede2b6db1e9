"""A sandbox that ended without handing back a result: save what it had, then try again or tell why not."""

from __future__ import annotations

from datetime import datetime

from app.db.models import Sandbox
from app.db.sandboxes import list_of_spec, move_sandbox
from app.db.tasks import move_task
from app.domain.notices import SANDBOX_LOST
from app.domain.ports import SandboxSight
from app.domain.states import SandboxState, SpecState, TaskState
from app.domain.view import Outcome
from worker.flow.follow import is_follow_up, set_aside
from worker.flow.rescue import rescue_checkpoint
from worker.step import Step

MAX_ATTEMPTS = 3
FINAL_REASONS = ("setup_failed", "bad_inputs")
"""Reasons that another attempt would meet again."""


async def handed_in_meanwhile(step: Step, sandbox: Sandbox) -> bool:
    """A result stored between this step's start and the look at the provider: then nothing was lost."""
    async with step.parts.db.read() as session:
        rows = await list_of_spec(session, step.spec.id)
    return any(row.id == sandbox.id and row.manifest_round > row.collected_round for row in rows)


async def give_up_or_retry(step: Step, sandbox: Sandbox, sight: SandboxSight) -> datetime:
    """Record the sandbox as failed. Its task, or the planning, is tried again up to three times, from what had been
    committed or handed in.
    """
    reason = sight.detail or (
        f"exit code {sight.exit_code}" if sight.exit_code is not None else sight.status.value
    )
    if sandbox.task_id is None:
        return await _plan_again(step, sandbox, reason, sight.exit_code)
    await rescue_checkpoint(step, sandbox)
    final = step.task.attempts >= MAX_ATTEMPTS or reason.startswith(FINAL_REASONS)
    async with step.saving() as session:
        now = step.now()
        await move_sandbox(
            session, sandbox.id, SandboxState.FAILED, now, reason=reason, exit_code=sight.exit_code
        )
        if not final:
            if step.task.state is TaskState.RUNNING:
                await move_task(session, step.task.id, TaskState.FAILED, now, reason=reason)
            await move_task(session, step.task.id, TaskState.PENDING, now, reason=reason)
    if final:
        text = SANDBOX_LOST.format(reason=reason)
        if is_follow_up(step.task):
            return await set_aside(step, text)
        return await step.end(SpecState.FAILED, Outcome.FAILED, text)
    return step.later(min(2**step.task.attempts, 20))


async def _plan_again(step: Step, sandbox: Sandbox, reason: str, exit_code: int | None) -> datetime:
    """What it had handed in counts; the next one starts at the first phase that is missing."""
    attempts = step.spec.plan_attempts + 1
    async with step.saving(plan_attempts=attempts) as session:
        await move_sandbox(
            session, sandbox.id, SandboxState.FAILED, step.now(), reason=reason, exit_code=exit_code
        )
    if attempts >= MAX_ATTEMPTS or reason.startswith(FINAL_REASONS):
        return await step.end(SpecState.FAILED, Outcome.FAILED, SANDBOX_LOST.format(reason=reason))
    return step.later(min(2**attempts, 20))
