"""A result has come in: check it, push it, and say honestly what it is."""

from __future__ import annotations

from datetime import datetime

from app.db.models import Sandbox
from app.db.sandboxes import move_sandbox, set_sandbox
from app.db.tasks import move_task
from app.domain.notices import KEPT, NO_CHANGES, SAVED_BEFORE
from app.domain.result_policy import Accepted, NoChanges, PushRefused
from app.domain.sanitize import quote_block
from app.domain.secrets_scan import redact
from app.domain.states import SANDBOX_LIVE, SandboxState, SpecState, TaskState
from app.domain.view import Outcome
from sandbox_payload.wire import ArtifactName, Manifest
from worker.flow.rescue import rescue_checkpoint
from worker.flow.take_result import Taken, find_manifest, take_result
from worker.step import Step

FAILED_TEXTS = {
    "max_turns": "The agent used up its turns",
    "budget": "The budget of the run was used up",
    "model_error": "The model could not go on",
    "cli_killed": "The agent's process was killed",
    "time_limit": "The time limit was reached",
    "terminated": "The sandbox was stopped",
}

DAMAGED = frozenset({"corrupt_bundle", "manifest_mismatch", "bundle_missing"})
"""Refusals that say nothing about the work: the last checkpoint may still be whole."""


async def run(step: Step) -> datetime:
    sandbox = step.sandbox
    manifest = await find_manifest(step, sandbox) if sandbox else None
    if sandbox is None or manifest is None:
        return step.later(1)
    await _note_start(step, sandbox)
    taken = await take_result(step, sandbox, ArtifactName.RESULT, manifest)
    if isinstance(taken.decision, PushRefused):
        return await _refused(step, sandbox, manifest, taken)
    values: dict[str, object] = {}
    in_review = step.spec.state is SpecState.IN_REVIEW
    if taken.pushed is not None and taken.pushed != step.spec.head_sha:
        values["head_sha"] = taken.pushed
        if in_review:
            values["pull_ready_at"] = None  # publish looks after the new head
    if manifest.status == "cancelled" and not in_review:
        return await _interrupted(step, sandbox, manifest, values)
    failed = manifest.status == "failed" and not in_review
    await _record(step, sandbox, manifest, values, failed=failed)
    for note in taken.decision.notes if isinstance(taken.decision, Accepted) else ():
        await step.add_note(note)
    if failed:
        return await step.end(SpecState.FAILED, Outcome.FAILED, _failure(step, manifest))
    nothing = isinstance(taken.decision, NoChanges) and step.spec.head_sha == step.spec.start_sha
    if nothing and not in_review:
        return await step.end(SpecState.COMPLETED, Outcome.NO_CHANGES, NO_CHANGES)
    return step.again()


async def _note_start(step: Step, sandbox: Sandbox) -> None:
    """It was done before any worker saw it run (the one that made it was killed)."""
    if sandbox.state is not SandboxState.CREATING:
        return
    async with step.saving() as session:
        now = step.now()
        await move_sandbox(session, sandbox.id, SandboxState.RUNNING, now, started_at=now)
        if step.task.state is TaskState.ASSIGNED:
            await move_task(session, step.task.id, TaskState.RUNNING, now)
    sandbox.state, step.task.state = SandboxState.RUNNING, TaskState.RUNNING


async def _record(
    step: Step, sandbox: Sandbox, manifest: Manifest, values: dict[str, object], *, failed: bool
) -> None:
    """That this round has been dealt with, and what the task came to."""
    summary = redact(manifest.summary, step.parts.secrets)
    async with step.saving(**values) as session:
        now = step.now()
        await set_sandbox(
            session, sandbox.id, now, collected_round=manifest.round, session_id=manifest.session_id
        )
        sandbox.collected_round = manifest.round
        if failed and sandbox.state in SANDBOX_LIVE:
            await move_sandbox(session, sandbox.id, SandboxState.FAILED, now, reason=manifest.reason)
        if step.task.state is TaskState.RUNNING:
            target = TaskState.FAILED if failed else TaskState.COMPLETED
            reason = manifest.reason or None
            await move_task(session, step.task.id, target, now, summary=summary, reason=reason)
            step.task.state, step.task.summary = target, summary


async def _interrupted(
    step: Step, sandbox: Sandbox, manifest: Manifest, values: dict[str, object]
) -> datetime:
    """Stopped from outside (this machine was shut down) while nobody cancelled: the task goes on in a new sandbox, on
    what it had committed and in its saved session. It does not count as an attempt.
    """
    async with step.saving(**values) as session:
        now = step.now()
        await set_sandbox(
            session, sandbox.id, now, collected_round=manifest.round, session_id=manifest.session_id
        )
        if sandbox.state in SANDBOX_LIVE:
            await move_sandbox(session, sandbox.id, SandboxState.FAILED, now, reason=manifest.reason)
        if step.task.state is TaskState.RUNNING:
            await move_task(session, step.task.id, TaskState.FAILED, now, reason=manifest.reason)
            attempts = max(step.task.attempts - 1, 0)
            await move_task(session, step.task.id, TaskState.PENDING, now, attempts=attempts)
    return step.again()


def _failure(step: Step, manifest: Manifest) -> str:
    text = FAILED_TEXTS.get(manifest.reason, "The agent failed")
    detail = redact(manifest.detail, step.parts.secrets).strip()
    kept = step.spec.head_sha != step.spec.start_sha
    tail = " What it had done by then is on the branch." if kept else ""
    return f"{text}: {detail}{tail}" if detail else f"{text}.{tail}"


async def _refused(step: Step, sandbox: Sandbox, manifest: Manifest, taken: Taken) -> datetime:
    """Nothing of it is pushed; the bundle stays on the server and the person learns which rule it broke."""
    decision = taken.decision
    if not isinstance(decision, PushRefused):
        return step.again()
    saved = decision.code in DAMAGED and await rescue_checkpoint(step, sandbox)
    async with step.saving() as session:
        now = step.now()
        await set_sandbox(
            session, sandbox.id, now, collected_round=manifest.round, session_id=manifest.session_id
        )
        if step.task.state is TaskState.RUNNING:
            await move_task(session, step.task.id, TaskState.FAILED, now, reason=decision.code)
    lines = [decision.detail]
    if saved:
        lines.append("\n" + SAVED_BEFORE)
    lines += [f"- `{path}`" for path in decision.paths]
    lines.append("\n" + KEPT.format(spec_id=step.spec.id))
    if taken.patch:
        patch = redact(taken.patch, step.parts.secrets)
        lines.append("\nThe change that was not pushed:\n\n" + quote_block(patch, 12_000))
    return await step.end(SpecState.FAILED, Outcome.PUSH_REFUSED, "\n".join(lines))
