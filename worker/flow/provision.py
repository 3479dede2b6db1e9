"""The sandbox: a row first, then the mirror, then the machine, each found again by name after a crash."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from app.db.messages import claim_waiting_messages
from app.db.models import Sandbox
from app.db.phases import record_phases
from app.db.sandboxes import move_sandbox, next_attempt
from app.db.tasks import move_task
from app.domain.ids import new_sandbox_id
from app.domain.notices import LFS_NOTE
from app.domain.ports import SandboxStatus
from app.domain.states import SANDBOX_LIVE, PhaseState, SandboxState, SpecState, TaskState
from app.domain.view import Outcome
from app.git.command import GitFailed, GitTimedOut
from app.observability.crashpoints import crashpoint
from worker.flow.follow import is_follow_up, set_aside
from worker.flow.lost import MAX_ATTEMPTS, give_up_or_retry, handed_in_meanwhile
from worker.flow.mirror import mirror_ready
from worker.flow.order import DEADLINE_MARGIN_S, make_order, sandbox_token
from worker.mirrors import mirror_path, uses_lfs
from worker.step import Step

PATIENCE_S = 15.0
PATIENCE_BEFORE_PULL_S = 3.0
"""The pull request waits while the repository is fetched for the first time; people should see it soon."""


async def run(step: Step) -> datetime:
    planning = step.spec.state in {SpecState.PLANNING, SpecState.AWAITING_APPROVAL}
    sandbox = step.planning_sandbox if planning else step.sandbox
    if sandbox is None or sandbox.state not in SANDBOX_LIVE:
        attempts = step.spec.plan_attempts if planning else step.task.attempts
        if attempts >= MAX_ATTEMPTS:
            detail = (
                f"No sandbox came in {MAX_ATTEMPTS} attempts ({sandbox.reason if sandbox else 'unknown'})."
            )
            if not planning and is_follow_up(step.task):
                return await set_aside(step, detail)
            return await step.end(SpecState.FAILED, Outcome.FAILED, detail)
        sandbox = await _record(step, planning=planning)
    patience_s = PATIENCE_S if planning or step.spec.pull_number else PATIENCE_BEFORE_PULL_S
    if not await mirror_ready(step, sandbox.start_sha, patience_s):
        return _look_again(step, 1)
    if sandbox.state is SandboxState.PENDING:
        await _note_lfs(step, sandbox)
    order = await make_order(step, sandbox)
    async with step.saving() as session:
        await move_sandbox(session, sandbox.id, SandboxState.CREATING, step.now())
    crashpoint("sandbox.before")
    sight = await step.parts.sandboxes.ensure_created(order)
    crashpoint("sandbox.after")
    if sight.status is SandboxStatus.RUNNING:
        async with step.saving() as session:
            now = step.now()
            await move_sandbox(session, sandbox.id, SandboxState.RUNNING, now, started_at=now)
            if not planning:
                await move_task(session, step.task.id, TaskState.RUNNING, now)
        return step.again()
    if sight.status is SandboxStatus.CREATING:
        return _look_again(step, 0.2 if step.now() - sandbox.created_at < timedelta(seconds=20) else 2)
    if await handed_in_meanwhile(step, sandbox):
        return step.again()
    return await give_up_or_retry(step, sandbox, sight)


def _look_again(step: Step, seconds: float) -> datetime:
    """At once while the pull request is still to be made: that is the next step."""
    waits_for_pull = step.spec.state is SpecState.IMPLEMENTING and not step.spec.pull_number
    return step.again() if waits_for_pull else step.later(seconds)


async def _note_lfs(step: Step, sandbox: Sandbox) -> None:
    """Said only: an unreadable or very large repository must not keep the work from starting."""
    try:
        uses = await uses_lfs(mirror_path(step.parts, step.spec.repo_id), sandbox.start_sha)
    except (GitFailed, GitTimedOut):
        return
    if uses:
        await step.add_note(LFS_NOTE)


async def _record(step: Step, *, planning: bool) -> Sandbox:
    """The row of a new attempt; its name is what a later worker finds the machine by."""
    limits, settings, now, spec = step.parts.limits, step.settings, step.now(), step.spec
    task_id = None if planning else step.task.id
    sandbox_id = new_sandbox_id()
    async with step.saving() as session:
        phase = None
        if planning:
            rows = await record_phases(session, spec.id, now)
            phase = next((row.name for row in rows if row.state is not PhaseState.COMPLETED), None)
            step.phases = rows
        sandbox = Sandbox(
            id=sandbox_id, spec_id=spec.id, task_id=task_id, phase=phase,
            attempt=await next_attempt(session, spec.id, task_id), state=SandboxState.PENDING,
            provider=step.parts.sandboxes.kind, provider_name=f"iw-{step.parts.instance}-{sandbox_id}",
            host_id=step.parts.local_host, start_sha=(spec.base_sha if planning else spec.head_sha) or "",
            model=settings.model,
            token_hash=hashlib.sha256(sandbox_token(step.parts.token_key, sandbox_id).encode()).hexdigest(),
            budget_usd=settings.budget_usd, spent_usd=0.0, reserved_usd=0.0, noted_seq=0, last_seq=0, turns=0,
            tools=0, collected_round=0, manifest_round=0, created_at=now, updated_at=now,
            deadline_at=now + timedelta(seconds=limits.task_timeout_s + limits.idle_s + DEADLINE_MARGIN_S),
        )  # fmt: skip
        session.add(sandbox)
        await session.flush()
        await claim_waiting_messages(session, spec.id, sandbox_id, now)
        if not planning:
            await move_task(session, step.task.id, TaskState.ASSIGNED, now, attempts=step.task.attempts + 1)
    step.sandboxes.append(sandbox)
    return sandbox
