"""The end of one sandbox whose work has been taken: closed in the database and removed at the provider."""

from __future__ import annotations

from app.db.models import Sandbox
from app.db.sandboxes import move_sandbox, set_sandbox
from app.domain.states import SANDBOX_LIVE, SandboxState
from app.observability.crashpoints import crashpoint
from worker.step import Step


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
    crashpoint("delete.before")
    await step.parts.sandboxes.ensure_deleted(sandbox.provider_name)
    crashpoint("delete.after")
    async with step.saving() as session:
        await set_sandbox(session, sandbox.id, now, removed_at=now)
    sandbox.removed_at = now
