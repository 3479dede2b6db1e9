"""After the end: everything people see gets its final form, everything that runs or costs is taken down."""

from __future__ import annotations

from datetime import datetime

import structlog

from app.db.models import Sandbox
from app.db.sandboxes import list_of_spec, move_sandbox
from app.domain.errors import Denied, Gone, Refused, refuses_credentials
from app.domain.notices import KEPT, OTHERS_SAVED
from app.domain.states import SANDBOX_LIVE, SandboxState
from app.domain.view import Outcome
from app.observability.crashpoints import crashpoint
from worker.flow.let_go import take_down
from worker.flow.rescue import rescue_result
from worker.step import Step
from worker.tell import tell_body, tell_check, tell_status

log = structlog.get_logger("worker.conclude")


_TRIES = 3
"""To save what others had committed, whatever goes wrong with it: the end is told all the same."""


async def run(step: Step) -> datetime:
    await _take_down(step)
    async with step.parts.db.read() as session:  # they could hand in until they were taken down
        step.sandboxes = await list_of_spec(session, step.spec.id)
    for sandbox in step.sandboxes:
        if _was_at_work(step, sandbox):
            await _save_work(step, sandbox)
    if step.spec.outcome == Outcome.NO_CHANGES:
        try:
            await _withdraw_pull(step)
        except (Gone, Denied, Refused) as error:
            log.warning("pull.not_withdrawn", error=str(error))
    await tell_body(step)
    await tell_check(step)
    await tell_status(step)
    if step.spec.status_untold or step.spec.check_untold:
        log.warning("end.not_told", status=step.spec.status_untold, check=step.spec.check_untold)
    crashpoint("concluded.before")
    await step.save(concluded_at=step.now())
    return step.again()


def _was_at_work(step: Step, sandbox: Sandbox) -> bool:
    """On its own task when the work ended for something else; it has been taken down since."""
    spec = step.spec
    if sandbox.task_id is None or spec.outcome not in {Outcome.FAILED, Outcome.PUSH_REFUSED}:
        return False
    untaken = sandbox.collected_round == 0 or sandbox.manifest_round > sandbox.collected_round
    return untaken and bool(spec.ended_at and sandbox.ended_at and sandbox.ended_at >= spec.ended_at)


async def _save_work(step: Step, sandbox: Sandbox) -> None:
    """What it had handed over by then goes onto the branch, as that of a cancelled one; else it stays on the server."""
    if step.spec.failures < _TRIES:
        try:
            if await rescue_result(step, sandbox):
                await step.add_note(OTHERS_SAVED)
            return
        except (Gone, Denied) as refused:
            if refuses_credentials(refused):
                raise
            log.warning("work.not_pushed", sandbox_id=sandbox.id, error=str(refused))
    await step.add_note(KEPT.format(spec_id=step.spec.id))


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
