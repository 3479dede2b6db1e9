"""The end of one sandbox whose work has been taken: closed in the database and removed at the provider."""

from __future__ import annotations

import structlog

from app.db.models import Sandbox
from app.db.sandboxes import move_sandbox, set_sandbox
from app.domain.errors import Denied
from app.domain.notices import SANDBOX_LEFT, SANDBOX_LEFT_FOR_KEY
from app.domain.ports import SandboxSight, SandboxStatus
from app.domain.states import SANDBOX_LIVE, SandboxState
from app.observability.crashpoints import crashpoint
from worker.step import Step

log = structlog.get_logger("worker.let_go")


async def let_go(step: Step, sandbox: Sandbox, reason: str | None, exit_code: int | None = None) -> None:
    """Safe to call again. What it reports after this is refused."""
    now = step.now()
    if sandbox.state in SANDBOX_LIVE:
        async with step.saving() as session:
            if sandbox.state is SandboxState.RUNNING:
                await move_sandbox(session, sandbox.id, SandboxState.COMPLETING, now)
            # From PENDING and CREATING it is the manual cancellation.
            await move_sandbox(
                session, sandbox.id, SandboxState.COMPLETED, now, reason=reason, exit_code=exit_code
            )
        sandbox.state = SandboxState.COMPLETED
    await take_down(step, sandbox)
    sandbox.removed_at = now


async def fetch_sight(step: Step, sandbox: Sandbox) -> SandboxSight:
    """Of one that has never run: where the provider refuses the operator's key there is nothing to wait for."""
    try:
        return await step.parts.sandboxes.fetch_sight(sandbox.provider_name)
    except Denied as denied:
        if denied.reason != "sandbox_key" or sandbox.started_at is not None:
            raise
        return SandboxSight(sandbox.provider_name, SandboxStatus.ABSENT)


async def ask_to_stop(step: Step, sandbox: Sandbox, grace_s: float) -> None:
    """What it has is to be handed over within `grace_s`. Asked first, recorded by the caller after: the other way round a
    kill in between would leave it unasked until the grace is over.
    """
    crashpoint("stop.before")
    await step.parts.sandboxes.ensure_stopped(sandbox.provider_name, grace_s)
    crashpoint("stop.after")


async def take_down(step: Step, sandbox: Sandbox) -> None:
    """Removed at the provider, and noted. One whose key no longer works, the operator's or that of somebody's own
    account, is let go of and told: when the key is back, it is found as one that nobody waits for.
    """
    crashpoint("delete.before")
    try:
        await step.parts.sandboxes.ensure_deleted(sandbox.provider_name)
    except Denied as denied:
        if denied.reason not in {"account", "sandbox_key"}:
            raise
        log.warning("sandbox.not_removed", sandbox_id=sandbox.id, error=str(denied)[:300])
        if sandbox.ordered_at is not None:  # else there has never been one
            by_operator = denied.reason == "sandbox_key"
            text = SANDBOX_LEFT_FOR_KEY if by_operator else SANDBOX_LEFT.format(message=denied)
            await step.add_note(text)
    crashpoint("delete.after")
    async with step.saving() as session:
        await set_sandbox(session, sandbox.id, step.now(), removed_at=step.now())
