"""The sandbox: a row first, then the mirror, then the machine, each found again by name after a crash."""

from __future__ import annotations

import hashlib
import hmac
from datetime import datetime, timedelta

from app.db.models import Sandbox
from app.db.sandboxes import (
    find_latest_transcript,
    get_artifact_bytes,
    move_sandbox,
    next_attempt,
    set_sandbox,
)
from app.db.tasks import move_task
from app.domain.ids import SandboxId, new_sandbox_id
from app.domain.notices import LFS_NOTE
from app.domain.ports import SandboxOrder, SandboxStatus
from app.domain.prompt import render_continue, render_prompt, render_system
from app.domain.states import SANDBOX_LIVE, SandboxState, SpecState, TaskState
from app.domain.view import Outcome
from app.git.command import GitFailed, GitTimedOut
from app.observability.crashpoints import crashpoint
from sandbox_payload import wire
from worker.flow.lost import give_up_or_retry, handed_in_meanwhile
from worker.mirrors import has_commit, mirror_path, uses_lfs
from worker.operations import forget_done, run_operation
from worker.step import Step

MAX_ATTEMPTS = 3
DEADLINE_MARGIN_S = 300
PATIENCE_S = 15.0
PATIENCE_BEFORE_PULL_S = 3.0
"""The pull request waits while the repository is fetched for the first time; people should see it soon."""


async def run(step: Step) -> datetime:
    sandbox = step.sandbox
    if sandbox is None or sandbox.state not in SANDBOX_LIVE:
        if step.task.attempts >= MAX_ATTEMPTS:
            detail = (
                f"No sandbox came in {MAX_ATTEMPTS} attempts ({sandbox.reason if sandbox else 'unknown'})."
            )
            return await step.end(SpecState.FAILED, Outcome.FAILED, detail)
        sandbox = await _record(step)
    if not await _mirror_ready(step, sandbox.start_sha):
        return _look_again(step, 1)
    if sandbox.state is SandboxState.PENDING:
        await _note_lfs(step, sandbox)
    order = await _order(step, sandbox)
    async with step.saving() as session:
        await move_sandbox(session, sandbox.id, SandboxState.CREATING, step.now())
    crashpoint("sandbox.before")
    sight = await step.parts.sandboxes.ensure_created(order)
    crashpoint("sandbox.after")
    if sight.status is SandboxStatus.RUNNING:
        async with step.saving() as session:
            now = step.now()
            await move_sandbox(session, sandbox.id, SandboxState.RUNNING, now, started_at=now)
            await move_task(session, step.task.id, TaskState.RUNNING, now)
        return step.again()
    if sight.status is SandboxStatus.CREATING:
        return _look_again(step, 0.2 if step.now() - sandbox.created_at < timedelta(seconds=20) else 2)
    if await handed_in_meanwhile(step, sandbox):
        return step.again()
    return await give_up_or_retry(step, sandbox, sight)


def _look_again(step: Step, seconds: float) -> datetime:
    """At once while the pull request is still to be made: that is the next step."""
    return step.later(seconds) if step.spec.pull_number else step.again()


async def _note_lfs(step: Step, sandbox: Sandbox) -> None:
    """Said only: an unreadable or very large repository must not keep the work from starting."""
    try:
        uses = await uses_lfs(mirror_path(step.parts, step.spec.repo_id), sandbox.start_sha)
    except (GitFailed, GitTimedOut):
        return
    if uses:
        await step.add_note(LFS_NOTE)


async def _record(step: Step) -> Sandbox:
    """The row of a new attempt; its name is what a later worker finds the machine by."""
    limits, now = step.parts.limits, step.now()
    sandbox_id = new_sandbox_id()
    async with step.saving() as session:
        attempt = await next_attempt(session, step.task.id)
        sandbox = Sandbox(
            id=sandbox_id, spec_id=step.spec.id, task_id=step.task.id, attempt=attempt, state=SandboxState.PENDING,
            provider=step.parts.sandboxes.kind, provider_name=f"iw-{step.parts.instance}-{sandbox_id}",
            host_id=step.parts.local_host, start_sha=step.spec.head_sha or "", model=limits.model,
            token_hash=hashlib.sha256(sandbox_token(step.parts.token_key, sandbox_id).encode()).hexdigest(),
            budget_usd=limits.max_budget_usd, spent_usd=0.0, reserved_usd=0.0, last_seq=0, turns=0, tools=0,
            collected_round=0, manifest_round=0, created_at=now, updated_at=now,
            deadline_at=now + timedelta(seconds=limits.task_timeout_s + limits.idle_s + DEADLINE_MARGIN_S),
        )  # fmt: skip
        session.add(sandbox)
        await move_task(session, step.task.id, TaskState.ASSIGNED, now, attempts=step.task.attempts + 1)
    step.sandboxes.append(sandbox)
    return sandbox


def sandbox_token(key: bytes, sandbox_id: str) -> str:
    """The bearer token of one sandbox: derived, so that a worker that takes over can hand in the same one."""
    return "iws_" + hmac.new(key, f"sandbox:{sandbox_id}".encode(), hashlib.sha256).hexdigest()


async def _mirror_ready(step: Step, sha: str) -> bool:
    path = mirror_path(step.parts, step.spec.repo_id)
    if await has_commit(path, sha):
        return True
    name = f"mirror:{step.parts.host_id}:{step.spec.repo_id}:{sha}"

    async def fetch() -> None:
        crashpoint("mirror.before")
        await step.parts.github.fetch_mirror(step.repo, path)
        crashpoint("mirror.after")

    patience_s = PATIENCE_S if step.spec.pull_number else PATIENCE_BEFORE_PULL_S
    done = await run_operation(step.parts, name, fetch, patience_s=patience_s)
    if done:
        await forget_done(step.parts, name)
        # Not there after a fetch: the mirror was removed, or the branch moved meanwhile. The next look fetches again.
        return await has_commit(path, sha)
    return False


async def _order(step: Step, sandbox: Sandbox) -> SandboxOrder:
    spec, limits = step.spec, step.parts.limits
    identity = await step.parts.identity()
    inputs = {
        wire.SYSTEM_FILE: render_system().encode(),
        wire.PROMPT_FILE: render_prompt(step.view, step.repo.full_name).encode(),
    }
    resumed = await _saved_session(step, sandbox)
    if resumed is not None:
        session_id, transcript = resumed
        inputs[wire.TRANSCRIPT_FILE] = transcript
        inputs[wire.PROMPT_FILE] = render_continue(step.view).encode()
    else:
        session_id = None
    brief = wire.Brief(
        sandbox_id=sandbox.id, spec_id=spec.id, task_id=step.task.id, title=spec.title[:300],
        repository=step.repo.full_name, branch=spec.branch or "", start_sha=sandbox.start_sha, model=limits.model,
        permission_mode="bypassPermissions" if limits.permission_mode == "bypassPermissions" else "acceptEdits",
        max_turns=limits.max_turns, max_budget_usd=limits.max_budget_usd, task_timeout_s=limits.task_timeout_s,
        idle_s=limits.idle_s, resume_session_id=session_id, author_name=identity.bot_login,
        author_email=identity.email,
    )  # fmt: skip
    inputs[wire.BRIEF_FILE] = brief.model_dump_json().encode()
    environment = {
        "SANDBOX_ID": sandbox.id,
        "SPEC_ID": spec.id,
        "SPEC_PHASE": "",
        "TASK_ID": step.task.id,
        "PROJECT_ID": str(spec.repo_id),
        "USER_ID": str(spec.labeler_id),
        "BRANCH_NAME": spec.branch or "",
        "GITHUB_REPO_OWNER": step.repo.owner,
        "GITHUB_REPO_NAME": step.repo.name,
        "MODEL": limits.model or "",
        "RESUME_SESSION_ID": session_id or "",
    }
    labels = {"issuewright": step.parts.instance, "spec": spec.id, "sandbox": sandbox.id}
    return SandboxOrder(
        sandbox_id=SandboxId(sandbox.id), name=sandbox.provider_name, labels=labels, environment=environment,
        inputs=inputs, token=sandbox_token(step.parts.token_key, sandbox.id),
        mirror=mirror_path(step.parts, spec.repo_id), branch=spec.branch or "", start_sha=sandbox.start_sha,
        agent_config_sha=spec.base_sha or sandbox.start_sha, memory_gb=limits.memory_gb, cpu=limits.cpu,
        disk_gb=limits.disk_gb, time_limit_s=limits.task_timeout_s + limits.idle_s + DEADLINE_MARGIN_S,
        allow_hosts=limits.allow_hosts,
    )  # fmt: skip


async def _saved_session(step: Step, sandbox: Sandbox) -> tuple[str, bytes] | None:
    """The session of an earlier attempt whose work this one stands on."""
    async with step.parts.db.read() as session:
        found = await find_latest_transcript(session, step.task.id)
        if found is None or found[0].id == sandbox.id or found[0].session_id is None:
            return None
        data = await get_artifact_bytes(session, found[1].id)
    async with step.parts.db.write() as session:
        await set_sandbox(session, sandbox.id, step.now(), session_id=found[0].session_id)
    return found[0].session_id, data
