"""A result has come in: check it, push it, and say honestly what it is."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from app.db.messages import give_up_messages
from app.db.models import Sandbox
from app.db.phases import record_follow_up
from app.db.sandboxes import move_sandbox, set_sandbox
from app.db.tasks import move_task, set_task_detail
from app.domain.notices import CONFLICT, KEPT, NO_CHANGES, SAVED_BEFORE
from app.domain.result_policy import Accepted, NoChanges, PushRefused
from app.domain.sanitize import escape_markdown, quote_block, sanitize_line
from app.domain.secrets_scan import redact
from app.domain.states import SANDBOX_LIVE, SandboxState, SpecState, TaskState
from app.domain.view import Outcome
from app.git.merge import Conflicted
from sandbox_payload.wire import ArtifactName, Manifest
from worker.flow.adopt import deal_with_no_branch, find_head
from worker.flow.answer import owe_answers, owe_failed_answers
from worker.flow.cut_round import record_failed_round, take_cut_round
from worker.flow.follow import follow_up_item, is_follow_up, is_left, set_aside
from worker.flow.let_go import let_go
from worker.flow.lost import interruption, take_interrupted
from worker.flow.model_key import key_trouble
from worker.flow.plan_comment import tell_plan
from worker.flow.rescue import rescue_checkpoint
from worker.flow.sub_issues import owe_sub_issue_end
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
    if isinstance(taken.decision, Conflicted):
        return await _conflicted(step, sandbox, manifest, taken.decision.paths)
    values: dict[str, object] = {}
    in_review = step.spec.state is SpecState.IN_REVIEW
    if taken.pushed is not None and taken.pushed != step.spec.head_sha:
        values["head_sha"] = taken.pushed
        if in_review:
            values["pull_ready_at"] = None  # publish looks after the new head
    if in_review and manifest.status != "completed":
        text = _why_failed(step, sandbox, manifest)
        return await take_cut_round(step, sandbox, manifest, taken, text, values)
    interrupted = None if in_review else interruption(sandbox, manifest)
    if interrupted is not None:
        return await take_interrupted(step, sandbox, manifest, values, interrupted)
    if manifest.status == "cancelled":
        return await _interrupted(step, sandbox, manifest, values)
    failed = manifest.status == "failed"
    await _record(step, sandbox, manifest, taken, values, failed=failed)
    for note in taken.decision.notes if isinstance(taken.decision, Accepted) else ():
        await step.add_note(note)
    return step.again() if in_review else await _go_on(step, sandbox, manifest, taken, failed=failed)


async def _go_on(step: Step, sandbox: Sandbox, manifest: Manifest, taken: Taken, *, failed: bool) -> datetime:
    """What follows from a task's first result."""
    untouched = step.spec.head_sha == step.spec.start_sha
    if failed:
        tail = "" if untouched else " What it had done by then is on the branch."
        text = _why_failed(step, sandbox, manifest)
        if is_follow_up(step.task):
            return await set_aside(step, text + tail)
        return await step.end(SpecState.FAILED, Outcome.FAILED, _of_task(step) + text + tail)
    if step.spec.plan_hash is not None and not is_follow_up(step.task):
        await tell_plan(step, step.spec.plan_hash)
    if any(map(is_left, step.tasks)):
        await let_go(step, sandbox, None)  # others follow; the last one waits for what people say
    elif isinstance(taken.decision, NoChanges) and untouched:
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
    step: Step, sandbox: Sandbox, manifest: Manifest, taken: Taken, values: dict[str, object], *, failed: bool
) -> None:
    """That this round has been dealt with, and what the task came to."""
    said = manifest.summary.strip()
    # What the model's API says at the end stands as the agent's last words, too: people read it once, as the reason.
    summary = "" if failed and said in manifest.detail else redact(manifest.summary, step.parts.secrets)
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
            detail = _with_findings(step, manifest)
            await move_task(session, step.task.id, target, now, summary=summary, reason=reason, detail=detail)
            step.task.state, step.task.summary, step.task.detail = target, summary, detail
            if target is TaskState.COMPLETED:
                await owe_sub_issue_end(step, session)
        elif manifest.evidence:
            await set_task_detail(session, step.task.id, _with_findings(step, manifest), now)
        await owe_answers(step, session, sandbox, manifest, taken)


def _with_findings(step: Step, manifest: Manifest) -> dict[str, Any]:
    """The task's item with what its sandbox found out: how the test command went, what shows that criteria are met."""
    detail, secrets = dict(step.task.detail), step.parts.secrets
    if manifest.test is not None:
        output = redact(manifest.test.output, secrets)
        detail["test"] = {**manifest.test.model_dump(mode="json"), "output": output[-4_000:]}
    if manifest.evidence:
        detail["evidence"] = [
            {"criterion": row.criterion, "met": row.met, "evidence": redact(row.evidence, secrets)}
            for row in manifest.evidence
        ]
    return detail


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


async def _conflicted(step: Step, sandbox: Sandbox, manifest: Manifest, paths: tuple[str, ...]) -> datetime:
    """Another task changed the same places first. The agent that came later gets its work back: a new sandbox on the
    branch as it stands, its session, and the names of what conflicts.
    """
    shown = [sanitize_line(path, 200) for path in paths]
    task = step.task
    again = task.state is TaskState.RUNNING and task.attempts < step.parts.limits.max_attempts
    if task.state is not TaskState.RUNNING:
        return await _conflicted_later(step, sandbox, manifest, shown)
    async with step.saving() as session:
        now = step.now()
        await set_sandbox(
            session, sandbox.id, now, collected_round=manifest.round, session_id=manifest.session_id
        )
        if task.state is TaskState.RUNNING:
            await move_task(session, task.id, TaskState.FAILED, now, reason="conflict")
        if again:
            detail = {**task.detail, "conflict": shown}
            await move_task(session, task.id, TaskState.PENDING, now, reason="conflict", detail=detail)
    sandbox.collected_round = manifest.round
    if again:
        await let_go(step, sandbox, "conflict")
        return step.again()
    text = CONFLICT.format(paths="\n".join(f"- `{path}`" for path in shown), spec_id=step.spec.id)
    if is_follow_up(task):
        return await set_aside(step, text)
    return await step.end(SpecState.FAILED, Outcome.FAILED, _of_task(step) + text)


async def _conflicted_later(step: Step, sandbox: Sandbox, manifest: Manifest, shown: list[str]) -> datetime:
    """A later round of work that is done already met what a person pushed: one more task, in the same session."""
    await let_go(step, sandbox, "conflict")  # first: after a crash the result is still there to be collected
    async with step.saving(state=SpecState.IMPLEMENTING, pull_ready_at=None) as session:
        now = step.now()
        await set_sandbox(
            session, sandbox.id, now, collected_round=manifest.round, session_id=manifest.session_id
        )
        await record_follow_up(session, step.spec.id, follow_up_item(step, shown), now)
    return step.again()


def failure_text(manifest: Manifest, secrets: tuple[str, ...]) -> str:
    """Why a run failed, as a sentence for people."""
    text = FAILED_TEXTS.get(manifest.reason, "The agent failed")
    detail = redact(manifest.detail, secrets).strip()
    return f"{text}: {detail}" if detail else f"{text}."


def _why_failed(step: Step, sandbox: Sandbox, manifest: Manifest) -> str:
    """The same with what is known of the model's key, and a full stop."""
    return _as_sentence(key_trouble(step, sandbox) or failure_text(manifest, step.parts.secrets))


def _as_sentence(text: str) -> str:
    stop = "" if text.endswith((".", "!", "?", "```")) else "."
    return f"{text[:1].upper()}{text[1:]}{stop}"


def _of_task(step: Step) -> str:
    """Which of several tasks it was."""
    if len(step.tasks) < 2:
        return ""
    title = escape_markdown(sanitize_line(step.task.title, 200))
    return f"Task {step.task.key} ({title}): "


async def _refused(step: Step, sandbox: Sandbox, manifest: Manifest, taken: Taken) -> datetime:
    """Nothing of it is pushed; the bundle stays on the server and the person learns which rule it broke."""
    decision = taken.decision
    if not isinstance(decision, PushRefused):
        return step.again()
    if decision.code == "moved" and await find_head(step) is None:
        return await deal_with_no_branch(step)
    saved = decision.code in DAMAGED and await rescue_checkpoint(step, sandbox)
    async with step.saving() as session:
        now = step.now()
        await set_sandbox(
            session, sandbox.id, now, collected_round=manifest.round, session_id=manifest.session_id
        )
        if step.task.state is TaskState.RUNNING:
            await move_task(session, step.task.id, TaskState.FAILED, now, reason=decision.code)
            await owe_failed_answers(step, session, sandbox, decision.code)
            await give_up_messages(session, sandbox.id)
        elif step.spec.state is SpecState.IN_REVIEW:
            await record_failed_round(step, session, sandbox, decision.code)
    lines = [_as_sentence(decision.detail)]
    if saved:
        lines.append("\n" + SAVED_BEFORE)
    lines += [f"- `{path}`" for path in decision.paths]
    lines.append("\n" + KEPT.format(spec_id=step.spec.id))
    if taken.patch:
        patch = redact(taken.patch, step.parts.secrets)
        lines.append("\nThe change that was not pushed:\n\n" + quote_block(patch.rstrip("\n"), 12_000))
    return await step.end(SpecState.FAILED, Outcome.PUSH_REFUSED, "\n".join(lines))
