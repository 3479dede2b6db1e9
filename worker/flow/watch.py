"""While a sandbox runs: is it there, is anything wrong with it? The agent's own words are not asked.

What takes time to show (silence, idleness, limits) is found for all sandboxes together by `worker.supervise.sandboxes`
and dealt with here.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from app.db.models import Sandbox
from app.db.sandboxes import set_sandbox
from app.domain.ports import SandboxSight, SandboxStatus
from app.domain.states import SANDBOX_LIVE, SandboxState, SpecState
from app.domain.supervision import GONE, Trouble
from app.observability.crashpoints import crashpoint
from worker.flow.left import is_handed_in
from worker.flow.let_go import ask_to_stop
from worker.flow.lost import give_up_or_retry, handed_in_meanwhile, trouble_of
from worker.flow.rescue import save_log
from worker.step import Step

LOOK_S = 3.0
LOOK_REMOTE_S = 30.0
"""Each look at a remote provider is a request or two, of a limit that all sandboxes share."""
STOP_GRACE_S = 20.0


async def run(step: Step) -> datetime:
    """Every sandbox at work, one after another; what is found of one of them is dealt with first."""
    planning = step.spec.state is SpecState.PLANNING
    looked_at = [
        sandbox
        for sandbox in step.sandboxes
        if sandbox.state in SANDBOX_LIVE and (sandbox.task_id is None) is planning
    ]
    due_at = step.later(LOOK_REMOTE_S if step.parts.local_host is None else LOOK_S)
    newest = step.planning_sandbox if planning else step.sandbox
    for sandbox in looked_at or filter(None, [newest]):
        step.focus = next((task.key for task in step.tasks if task.id == sandbox.task_id), None)
        found = await _look(step, sandbox)
        if found is not None:
            return found
    return due_at


async def look_at_troubled(step: Step) -> datetime | None:
    """Of tasks at work, while another one's sandbox is made or waited for: what supervision has noted of theirs does not
    wait for that. None: nothing is to be done about any of them.
    """
    troubled = [
        sandbox
        for sandbox in step.sandboxes
        if sandbox.state is SandboxState.RUNNING and sandbox.task_id is not None and trouble_of(sandbox)
    ]
    for sandbox in troubled:
        step.focus = next(task.key for task in step.tasks if task.id == sandbox.task_id)
        found = await _look(step, sandbox)
        if found is not None:
            return found
    return None


async def _look(step: Step, sandbox: Sandbox) -> datetime | None:
    """None when it is there and nothing is wrong."""
    sight = await step.parts.sandboxes.fetch_sight(sandbox.provider_name)
    if sight.status in {SandboxStatus.EXITED, SandboxStatus.ERROR, SandboxStatus.ABSENT}:
        if sight.status is not SandboxStatus.ABSENT and not await is_handed_in(step, sandbox):
            return step.later(2)
        if await handed_in_meanwhile(step, sandbox):
            return step.again()
        return await give_up_or_retry(step, sandbox, sight)
    trouble = trouble_of(sandbox)
    if trouble in GONE:
        async with step.saving() as session:  # there it is: the provider's list was behind
            await set_sandbox(session, sandbox.id, step.now(), trouble=None)
        return None
    return await _stop(step, sandbox, trouble) if trouble is not None else None


async def _stop(step: Step, sandbox: Sandbox, trouble: Trouble) -> datetime:
    """Ask it to wrap up; past the grace it counts as lost whatever it says."""
    now = step.now()
    if sandbox.stop_asked_at is None:
        await ask_to_stop(step, sandbox, STOP_GRACE_S)
        async with step.saving() as session:
            await set_sandbox(session, sandbox.id, now, stop_asked_at=now)
        return step.later(2)
    if now - sandbox.stop_asked_at < timedelta(seconds=STOP_GRACE_S + 20):
        return step.later(2)
    if not await is_handed_in(step, sandbox):
        return step.later(2)
    if await handed_in_meanwhile(step, sandbox):
        return step.again()
    await save_log(step, sandbox)
    crashpoint("delete.before")
    await step.parts.sandboxes.ensure_deleted(sandbox.provider_name)
    crashpoint("delete.after")
    return await give_up_or_retry(
        step, sandbox, SandboxSight(sandbox.provider_name, SandboxStatus.ERROR, detail=trouble.value)
    )
