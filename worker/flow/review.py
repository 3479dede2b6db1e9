"""In review: the sandbox waits for messages and goes; the pull request is merged or closed by people."""

from __future__ import annotations

from datetime import datetime, timedelta

from app.db.models import Sandbox
from app.db.sandboxes import set_sandbox
from app.domain.notices import PULL_CLOSED
from app.domain.ports import SandboxStatus
from app.domain.states import SANDBOX_LIVE, SpecState
from app.domain.supervision import GONE
from app.domain.view import Outcome
from worker.flow.checks import look_at_checks
from worker.flow.cut_round import is_in_round, note_lost_round
from worker.flow.left import is_handed_in
from worker.flow.let_go import ask_to_stop, let_go
from worker.flow.lost import handed_in_meanwhile, trouble_of
from worker.flow.merged import end_merged
from worker.flow.rescue import rescue_checkpoint, save_log
from worker.flow.rounds import are_used_up
from worker.step import SLOW, Step

LOOK_S = 5.0
STOP_GRACE_S = 20.0


async def run(step: Step) -> datetime:
    if step.spec.pull_state == "merged":
        return await end_merged(step)
    if step.spec.pull_state == "closed":
        return await step.end(SpecState.CANCELLED, Outcome.CANCELLED, PULL_CLOSED)
    there = [sandbox for sandbox in step.sandboxes if sandbox.removed_at is None]
    if there and are_used_up(step) and all(sandbox.activity != "working" for sandbox in there):
        for sandbox in there:
            await let_go(step, sandbox, None)  # what is said from now on waits for somebody's word
        return step.again()
    if there:
        waiting = [await look_after(step, sandbox) for sandbox in there]
        # Taken down just now: the next step reads that and tells it, before it rests.
        look_s = min(LOOK_S, max(step.parts.limits.idle_s, 1))
        if not any(waiting):
            return step.again()
        checks_at = await look_at_checks(step)
        return min(step.later(look_s), checks_at or step.later(look_s))
    # No delivery may have told of the end: the live state is read now and then.
    pull = await step.parts.github.fetch_pull(step.repo, step.spec.pull_number or 0)
    if pull.merged or pull.state == "closed":
        await step.save(pull_state="merged" if pull.merged else "closed")
        return step.again()
    checks_at = await look_at_checks(step)
    return min(step.now() + SLOW, checks_at or step.now() + SLOW)


async def look_after(step: Step, sandbox: Sandbox) -> bool:
    """True while the sandbox is still there. One that has ended is closed in the database and removed."""
    now = step.now()
    sight = await step.parts.sandboxes.fetch_sight(sandbox.provider_name)
    if sight.status in {SandboxStatus.RUNNING, SandboxStatus.CREATING}:
        trouble = trouble_of(sandbox)
        if trouble is None or trouble in GONE:
            return True
        if sandbox.stop_asked_at is None:
            await ask_to_stop(step, sandbox, STOP_GRACE_S)
            async with step.saving() as session:
                await set_sandbox(session, sandbox.id, now, stop_asked_at=now)
            return True
        if now - sandbox.stop_asked_at < timedelta(seconds=STOP_GRACE_S + 20):
            return True
    if sandbox.state in SANDBOX_LIVE:  # also of one that went by itself, while the app was away
        if not await is_handed_in(step, sandbox):
            return True
        if await handed_in_meanwhile(step, sandbox):
            return True  # the next step reads that, and collects
    await _let_go_of(step, sandbox, sight.exit_code)
    return False


async def _let_go_of(step: Step, sandbox: Sandbox, exit_code: int | None) -> None:
    """One that did not end by itself may have been at work on what people said: nothing that it had committed is lost."""
    if exit_code == 0 or sandbox.state not in SANDBOX_LIVE:
        await let_go(step, sandbox, None, exit_code)
        return
    await save_log(step, sandbox)
    if sandbox.task_id is not None and await rescue_checkpoint(step, sandbox):
        await step.save(pull_ready_at=None)  # publish looks after the new head
    if is_in_round(step, sandbox):
        await note_lost_round(step, sandbox)
    await let_go(step, sandbox, sandbox.trouble, exit_code)
