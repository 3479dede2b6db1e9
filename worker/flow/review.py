"""In review: the sandbox waits for messages and goes; the pull request is merged or closed by people."""

from __future__ import annotations

from datetime import datetime, timedelta

from app.db.models import Sandbox
from app.domain.ids import IssueNumber
from app.domain.notices import PULL_CLOSED
from app.domain.ports import SandboxStatus
from app.domain.states import SpecState
from app.domain.view import Outcome
from app.observability.crashpoints import crashpoint
from worker.flow.let_go import let_go
from worker.step import SLOW, Step

LOOK_S = 5.0


async def run(step: Step) -> datetime:
    if step.spec.pull_state == "merged":
        return await _merged(step)
    if step.spec.pull_state == "closed":
        return await step.end(SpecState.CANCELLED, Outcome.CANCELLED, PULL_CLOSED)
    there = [sandbox for sandbox in step.sandboxes if sandbox.removed_at is None]
    if there:
        waiting = [await look_after(step, sandbox) for sandbox in there]
        # Taken down just now: the next step reads that and tells it, before it rests.
        look_s = min(LOOK_S, max(step.parts.limits.idle_s, 1))
        return step.later(look_s) if any(waiting) else step.again()
    # No delivery may have told of the end: the live state is read now and then.
    pull = await step.parts.github.fetch_pull(step.repo, step.spec.pull_number or 0)
    if pull.merged or pull.state == "closed":
        await step.save(pull_state="merged" if pull.merged else "closed")
        return step.again()
    return step.now() + SLOW


async def _merged(step: Step) -> datetime:
    spec = step.spec
    if spec.base_branch != spec.default_branch:
        # GitHub closes the issue only on a merge into the default branch.
        crashpoint("close_issue.before")
        await step.parts.github.ensure_issue_closed(step.repo, IssueNumber(spec.issue_number))
        crashpoint("close_issue.after")
    return await step.end(SpecState.COMPLETED, Outcome.DONE, "")


async def look_after(step: Step, sandbox: Sandbox) -> bool:
    """True while the sandbox is still there. One that has ended is closed in the database and removed."""
    now = step.now()
    sight = await step.parts.sandboxes.fetch_sight(sandbox.provider_name)
    if sight.status in {SandboxStatus.RUNNING, SandboxStatus.CREATING}:
        if now > sandbox.deadline_at + timedelta(seconds=60):
            crashpoint("stop.before")
            await step.parts.sandboxes.ensure_stopped(sandbox.provider_name, 20)
            crashpoint("stop.after")
        return True
    await let_go(step, sandbox, None, sight.exit_code)
    return False
