"""After the end: everything people see gets its final form, everything that runs or costs is taken down."""

from __future__ import annotations

from datetime import datetime

import structlog

from app.db.sandboxes import move_sandbox
from app.domain.errors import Denied, Gone, Refused
from app.domain.render_pull import replace_section
from app.domain.states import SANDBOX_LIVE, SandboxState
from app.domain.view import Outcome
from app.observability.crashpoints import crashpoint
from worker.flow.let_go import take_down
from worker.step import Step
from worker.tell import tell_check, tell_status

log = structlog.get_logger("worker.conclude")


async def run(step: Step) -> datetime:
    await _take_down(step)
    if step.spec.outcome == Outcome.NO_CHANGES:
        try:
            await _withdraw_pull(step)
        except (Gone, Denied, Refused) as error:
            log.warning("pull.not_withdrawn", error=str(error))
    await _tell_body(step)
    await tell_check(step)
    await tell_status(step)
    if step.spec.status_untold or step.spec.check_untold:
        log.warning("end.not_told", status=step.spec.status_untold, check=step.spec.check_untold)
    crashpoint("concluded.before")
    await step.save(concluded_at=step.now())
    return step.again()


async def _tell_body(step: Step) -> None:
    """A pull request that stays open says that nobody works on it any more."""
    spec, github = step.spec, step.parts.github
    if spec.pull_number is None or spec.outcome == Outcome.DONE or spec.pull_state != "open":
        return
    try:
        pull = await github.fetch_pull(step.repo, spec.pull_number)
        body = replace_section(pull.body, step.view)
        if pull.state == "open" and body != pull.body:
            crashpoint("body.before")
            await github.ensure_pull_body(step.repo, spec.pull_number, body)
            crashpoint("body.after")
    except (Gone, Denied, Refused) as error:
        log.warning("body.not_told", error=str(error))


async def _withdraw_pull(step: Step) -> None:
    """Nothing to change: the pull request is closed and its branch goes, if it is still as we made it."""
    spec, github = step.spec, step.parts.github
    if spec.pull_number is not None and spec.pull_state == "open":
        crashpoint("close.before")
        await github.ensure_pull_closed(step.repo, spec.pull_number)
        crashpoint("close.after")
        await step.save(pull_state="closed")
    if spec.branch is not None and spec.head_sha is not None and spec.head_sha == spec.start_sha:
        crashpoint("delete_branch.before")
        await github.ensure_branch_deleted(step.repo, spec.branch, spec.head_sha)
        crashpoint("delete_branch.after")


async def _take_down(step: Step) -> None:
    """End and remove every sandbox of the spec; its work has been taken by now."""
    for sandbox in step.sandboxes:
        if sandbox.removed_at is not None:
            continue
        now = step.now()
        if sandbox.state in SANDBOX_LIVE:
            async with step.saving() as session:
                if sandbox.state is SandboxState.PENDING:
                    await move_sandbox(session, sandbox.id, SandboxState.COMPLETED, now)
                elif sandbox.state is SandboxState.RUNNING:
                    await move_sandbox(session, sandbox.id, SandboxState.COMPLETING, now)
                    await move_sandbox(session, sandbox.id, SandboxState.COMPLETED, now)
                else:
                    await move_sandbox(session, sandbox.id, SandboxState.COMPLETED, now, reason="ended")
        await take_down(step, sandbox)
