"""The sandbox: a row first, then the mirror, then the machine, each found again by name after a crash."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog

from app.db.models import Sandbox
from app.db.relay import record_relay
from app.db.sandboxes import move_sandbox, set_sandbox
from app.db.tasks import move_task
from app.domain.errors import Denied, RetryAt
from app.domain.notices import LFS_NOTE
from app.domain.ports import SandboxSight, SandboxStatus
from app.domain.remote import AppSilent
from app.domain.states import SANDBOX_LIVE, SandboxState, SpecState, TaskState
from app.domain.supervision import Trouble
from app.domain.supply import Queued, Shortage
from app.domain.view import Outcome
from app.git.command import GitFailed, GitTimedOut
from app.observability.crashpoints import crashpoint
from worker.flow import watch
from worker.flow.attempt import ask_again_at, begin_attempt, deadline_from, note_wait
from worker.flow.follow import is_follow_up, set_aside
from worker.flow.left import is_handed_in
from worker.flow.lost import give_up_or_retry, handed_in_meanwhile, trouble_of
from worker.flow.mirror import mirror_ready
from worker.flow.order import make_order
from worker.mirrors import mirror_path, uses_lfs
from worker.step import Step

log = structlog.get_logger("worker.flow.provision")

PATIENCE_S = 15.0
PATIENCE_BEFORE_PULL_S = 3.0
"""The pull request waits while the repository is fetched for the first time; people should see it soon."""


async def run(step: Step) -> datetime:
    """Meanwhile the other tasks of the spec go on, and are looked after."""
    at = await _provide(step)
    if at <= step.now():
        return at
    others_at = await watch.look_at_troubled(step)
    return min(at, others_at) if others_at is not None else at


async def _provide(step: Step) -> datetime:
    planning = step.spec.state in {SpecState.PLANNING, SpecState.AWAITING_APPROVAL}
    sandbox = step.planning_sandbox if planning else step.sandbox
    if sandbox is None or sandbox.state not in SANDBOX_LIVE:
        attempts = step.spec.plan_attempts if planning else step.task.attempts
        if attempts >= step.parts.limits.max_attempts:
            detail = f"No sandbox came in {attempts} attempts ({sandbox.reason if sandbox else 'unknown'})."
            if not planning and is_follow_up(step.task):
                return await set_aside(step, detail)
            return await step.end(SpecState.FAILED, Outcome.FAILED, detail)
        begun = await begin_attempt(step, planning=planning)
        if isinstance(begun, Queued):
            return ask_again_at(step, begun)
        sandbox = begun
    if trouble_of(sandbox) is Trouble.NOT_STARTED:
        return await _start_over(step, sandbox)
    patience_s = PATIENCE_S if planning or step.spec.pull_number else PATIENCE_BEFORE_PULL_S
    if not await mirror_ready(step, sandbox.start_sha, patience_s):
        return _look_again(step, 1)
    if sandbox.state is SandboxState.PENDING:
        await _note_lfs(step, sandbox)
    return await _make(step, sandbox, planning=planning)


async def _make(step: Step, sandbox: Sandbox, *, planning: bool) -> datetime:
    order = await make_order(step, sandbox)
    async with step.saving() as session:
        ordered_at = sandbox.ordered_at or step.now()
        await move_sandbox(session, sandbox.id, SandboxState.CREATING, step.now(), ordered_at=ordered_at)
    crashpoint("sandbox.before")
    try:
        sight = await step.parts.sandboxes.ensure_created(order)
    except RetryAt as later:
        shortage = Shortage.LINK if isinstance(later, AppSilent) else Shortage.PROVIDER
        return await _wait_for_provider(step, sandbox, shortage, later.at)
    except Denied as denied:
        if denied.reason != "sandbox_key":
            raise
        log.warning("sandbox.key_refused", error=str(denied))
        again_at = ask_again_at(step, Queued(Shortage.KEY))
        return await _wait_for_provider(step, sandbox, Shortage.KEY, again_at)
    crashpoint("sandbox.after")
    if sight.status is SandboxStatus.RUNNING:
        async with step.saving() as session:
            now = step.now()
            await note_wait(session, step, None)
            await move_sandbox(
                session,
                sandbox.id,
                SandboxState.RUNNING,
                now,
                started_at=now,
                deadline_at=deadline_from(step, now),
            )
            if sight.relayed:
                await record_relay(session, sandbox.id, now)
                if order.direct_model is not None:
                    await set_sandbox(session, sandbox.id, now, model_key_of=order.direct_model.scope)
            if not planning:
                await move_task(session, step.task.id, TaskState.RUNNING, now)
        return step.again()
    if sight.status is SandboxStatus.CREATING:
        return _look_again(step, 0.2 if step.now() - sandbox.created_at < timedelta(seconds=20) else 2)
    return await _end_early(step, sandbox, sight)


async def _end_early(step: Step, sandbox: Sandbox, sight: SandboxSight) -> datetime:
    """It failed to start, or its agent was over before any worker saw it run."""
    if not await is_handed_in(step, sandbox):
        return step.later(2)
    if await handed_in_meanwhile(step, sandbox):
        return step.again()
    return await _give_up_or_retry(step, sandbox, sight)


async def _give_up_or_retry(step: Step, sandbox: Sandbox, sight: SandboxSight) -> datetime:
    """Whatever comes next, it does not wait for the provider any more."""
    if step.spec.queued_at is not None:
        async with step.saving() as session:
            await note_wait(session, step, None)
    return await give_up_or_retry(step, sandbox, sight)


async def _wait_for_provider(step: Step, sandbox: Sandbox, shortage: Shortage, at: datetime) -> datetime:
    """It has no room (a quota), asks for a pause, is away or refuses our key: no attempt of ours, however long it lasts."""
    async with step.saving() as session:
        await note_wait(session, step, Queued(shortage))
        await set_sandbox(session, sandbox.id, step.now(), ordered_at=None)
    return _look_again(step, max(1.0, (at - step.now()).total_seconds()))


async def _start_over(step: Step, sandbox: Sandbox) -> datetime:
    """It did not come about in time. What there is of it is in nobody's way any more before the next one is made."""
    crashpoint("delete.before")
    await step.parts.sandboxes.ensure_deleted(sandbox.provider_name)
    crashpoint("delete.after")
    sight = SandboxSight(sandbox.provider_name, SandboxStatus.ERROR, detail=Trouble.NOT_STARTED.value)
    return await _give_up_or_retry(step, sandbox, sight)


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
