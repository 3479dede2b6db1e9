"""The end of one sandbox whose work has been taken: closed in the database and removed at the provider."""

from __future__ import annotations

import structlog

from app.db.models import Sandbox
from app.db.sandboxes import move_sandbox, set_sandbox
from app.domain.errors import Denied
from app.domain.notices import SANDBOX_LEFT
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


async def take_down(step: Step, sandbox: Sandbox) -> None:
    """Removed at the provider, and noted. One that is in somebody's own account whose key no longer works is let go of
    and told: when the key is back, it is found as one that nobody waits for.
    """
    crashpoint("delete.before")
    try:
        await step.parts.sandboxes.ensure_deleted(sandbox.provider_name)
    except Denied as denied:
        if denied.reason != "account":
            raise
        log.warning("sandbox.not_removed", sandbox_id=sandbox.id, error=str(denied)[:300])
        await step.add_note(SANDBOX_LEFT.format(message=denied))
    crashpoint("delete.after")
    async with step.saving() as session:
        await set_sandbox(session, sandbox.id, step.now(), removed_at=step.now())
