"""Somebody ended it: the agent has 30 s to wrap up, what it had committed reaches the branch, the branch stays."""

from __future__ import annotations

from datetime import datetime, timedelta

from app.db.models import Sandbox
from app.db.sandboxes import move_sandbox, set_sandbox
from app.domain.errors import Denied, Gone
from app.domain.notices import CANCEL_TEXTS
from app.domain.ports import SandboxStatus
from app.domain.states import SANDBOX_LIVE, SandboxState, SpecState
from app.domain.view import Outcome
from app.observability.crashpoints import crashpoint
from worker.flow.rescue import rescue_checkpoint
from worker.step import Step

GRACE_S = 30.0


async def run(step: Step) -> datetime:
    spec = step.spec
    if await _merged(step):
        return await step.end(SpecState.COMPLETED, Outcome.DONE, "")
    for sandbox in step.sandboxes:
        if sandbox.state in SANDBOX_LIVE and not await _ended(step, sandbox):
            return step.later(0.5)
    reason = spec.cancel_reason or ""
    detail = CANCEL_TEXTS.get(reason, reason)
    if spec.head_sha != spec.start_sha:
        detail += " What the agent had committed by then is on the branch."
    return await step.end(SpecState.CANCELLED, Outcome.CANCELLED, detail)


async def _merged(step: Step) -> bool:
    """Merging often closes the issue first: the pull request's live state decides."""
    if step.spec.pull_number is None or step.spec.cancel_reason == "access_lost":
        return False
    if step.spec.pull_state == "merged":
        return True
    try:
        return (await step.parts.github.fetch_pull(step.repo, step.spec.pull_number)).merged
    except (Gone, Denied):
        return False


async def _ended(step: Step, sandbox: Sandbox) -> bool:
    """Ask once, wait for the grace, then take it down. True when it has ended and its work is safe."""
    now, provider = step.now(), step.parts.sandboxes
    sight = await provider.fetch_sight(sandbox.provider_name)
    alive = sight.status in {SandboxStatus.RUNNING, SandboxStatus.CREATING}
    if alive and sandbox.stop_asked_at is None:
        # Asked first, recorded after: the other way round a kill in between would leave it unasked until the grace is over.
        crashpoint("stop.before")
        await provider.ensure_stopped(sandbox.provider_name, GRACE_S)
        crashpoint("stop.after")
        async with step.saving() as session:
            await set_sandbox(session, sandbox.id, now, stop_asked_at=now)
        sandbox.stop_asked_at = now
        return False
    asked_at = sandbox.stop_asked_at or now
    if alive and now - asked_at < timedelta(seconds=GRACE_S + 5):
        return False
    if alive:
        crashpoint("delete.before")
        await provider.ensure_deleted(sandbox.provider_name)
        crashpoint("delete.after")
    if step.spec.cancel_reason != "access_lost":
        await rescue_checkpoint(step, sandbox)
    async with step.saving() as session:
        await move_sandbox(session, sandbox.id, SandboxState.COMPLETED, now, reason="cancelled")
    sandbox.state = SandboxState.COMPLETED
    return True
