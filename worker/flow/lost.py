"""A sandbox that ended without a result that counts: save what it had, then try again or tell why not."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import Sandbox
from app.db.sandboxes import list_of_spec, move_sandbox, set_sandbox
from app.db.tasks import move_task
from app.domain.notices import SANDBOX_LOST, TROUBLES
from app.domain.ports import SandboxSight
from app.domain.states import SANDBOX_LIVE, SandboxState, SpecState, TaskState
from app.domain.supervision import FINAL, GONE, Trouble
from app.domain.view import Outcome
from sandbox_payload.wire import Manifest
from worker.flow.follow import is_follow_up, set_aside
from worker.flow.model_key import key_trouble
from worker.flow.rescue import rescue_checkpoint, save_log
from worker.step import Step

FINAL_REASONS = ("setup_failed", "bad_inputs", *FINAL)
"""Reasons that another attempt would meet again."""
RESTARTED = frozenset({"cli_killed", "cli_ended"})
"""Reasons of a result that say nothing about the work: it goes on from what had been committed."""


async def handed_in_meanwhile(step: Step, sandbox: Sandbox) -> bool:
    """A result stored between this step's start and the look at the provider: then nothing was lost."""
    async with step.parts.db.read() as session:
        rows = await list_of_spec(session, step.spec.id)
    return any(row.id == sandbox.id and row.manifest_round > row.collected_round for row in rows)


async def give_up_or_retry(step: Step, sandbox: Sandbox, sight: SandboxSight) -> datetime:
    """Record the sandbox as failed. Its task, or the planning, is tried again as often as the operator allows, from
    what had been committed or handed in.
    """
    reason = _reason(sandbox, sight)
    await save_log(step, sandbox)
    if sandbox.task_id is None:
        return await _plan_again(step, sandbox, reason, sight.exit_code)
    await rescue_checkpoint(step, sandbox)
    text = _why_final(step, sandbox, reason, step.task.attempts)
    async with step.saving() as session:
        await _close(session, step, sandbox, reason, sight.exit_code)
        await _free_task(session, step, reason, final=text is not None)
    return await _go_on(step, text)


def interruption(sandbox: Sandbox, manifest: Manifest) -> str | None:
    """Why a result is no answer to its task, though it holds what had been done by then: the sandbox was stopped for
    something that was wrong with it, or its agent was killed. None when it is one, or when nothing was wrong.
    """
    if manifest.status == "cancelled" and sandbox.trouble is not None:
        return sandbox.trouble
    if manifest.status == "failed" and manifest.reason in RESTARTED:
        return manifest.reason
    return None


async def take_interrupted(
    step: Step, sandbox: Sandbox, manifest: Manifest, values: dict[str, object], reason: str
) -> datetime:
    """A task's result like that, whose commits are on the branch (`values` say so): it counts as an attempt."""
    text = _why_final(step, sandbox, reason, step.task.attempts)
    async with step.saving(**values) as session:
        await set_sandbox(
            session,
            sandbox.id,
            step.now(),
            collected_round=manifest.round,
            session_id=manifest.session_id,
        )
        if sandbox.state in SANDBOX_LIVE:
            await _close(session, step, sandbox, reason, None)
        await _free_task(session, step, reason, final=text is not None)
    return await _go_on(step, text)


async def plan_interrupted(step: Step, sandbox: Sandbox, reason: str) -> str | None:
    """The same of planning, whose sandbox is recorded as failed by now: None when it is tried again, else why not."""
    attempts = step.spec.plan_attempts + 1
    await step.save(plan_attempts=attempts)
    return _why_final(step, sandbox, reason, attempts)


def pause_s(attempts: int) -> float:
    """Before the next attempt."""
    return min(2.0**attempts, 20.0)


def _reason(sandbox: Sandbox, sight: SandboxSight) -> str:
    if sandbox.trouble is not None and sandbox.trouble not in GONE:
        return sandbox.trouble
    if sight.detail:
        return sight.detail
    return f"exit code {sight.exit_code}" if sight.exit_code is not None else sight.status.value


def _why_final(step: Step, sandbox: Sandbox, reason: str, attempts: int) -> str | None:
    """For people, when there will be no further attempt."""
    key = key_trouble(step, sandbox)
    if key is None and attempts < step.parts.limits.max_attempts and not reason.startswith(FINAL_REASONS):
        return None
    if key is not None:
        return key
    return TROUBLES.get(reason) or SANDBOX_LOST.format(reason=reason)


async def _close(
    session: AsyncSession, step: Step, sandbox: Sandbox, reason: str, exit_code: int | None
) -> None:
    """One that was never ordered can't have failed."""
    pending = sandbox.state is SandboxState.PENDING
    target = SandboxState.COMPLETED if pending else SandboxState.FAILED
    await move_sandbox(session, sandbox.id, target, step.now(), reason=reason, exit_code=exit_code)


async def _free_task(session: AsyncSession, step: Step, reason: str, *, final: bool) -> None:
    task, now = step.task, step.now()
    if task.state is TaskState.RUNNING:
        await move_task(session, task.id, TaskState.FAILED, now, reason=reason)
    if not final and task.state in {TaskState.RUNNING, TaskState.ASSIGNED}:
        await move_task(session, task.id, TaskState.PENDING, now, reason=reason)


async def _go_on(step: Step, text: str | None) -> datetime:
    if text is None:
        return step.later(pause_s(step.task.attempts))
    if is_follow_up(step.task):
        return await set_aside(step, text)
    return await step.end(SpecState.FAILED, Outcome.FAILED, text)


async def _plan_again(step: Step, sandbox: Sandbox, reason: str, exit_code: int | None) -> datetime:
    """What it had handed in counts; the next one starts at the first phase that is missing."""
    attempts = step.spec.plan_attempts + 1
    async with step.saving(plan_attempts=attempts) as session:
        await _close(session, step, sandbox, reason, exit_code)
    text = _why_final(step, sandbox, reason, attempts)
    if text is not None:
        return await step.end(SpecState.FAILED, Outcome.FAILED, text)
    return step.later(pause_s(attempts))


def trouble_of(sandbox: Sandbox) -> Trouble | None:
    """What supervision found of it. A word of another release counts as none."""
    return Trouble(sandbox.trouble) if sandbox.trouble in set(Trouble) else None
