"""The plan waits for somebody's yes. Meanwhile its sandbox waits for what people say, and goes."""

from __future__ import annotations

from datetime import datetime

from app.domain.states import SpecState
from worker.flow.let_go import let_go
from worker.flow.plan_comment import tell_plan
from worker.flow.review import look_after
from worker.flow.sub_issues import owe_sub_issues
from worker.step import SLOW, Step

LOOK_S = 5.0


async def run(step: Step) -> datetime:
    plan = step.facts.plan
    if plan is not None and plan.approved:
        return await begin_work(step)
    there = [sandbox for sandbox in step.sandboxes if sandbox.removed_at is None]
    if there:
        waiting = [await look_after(step, sandbox) for sandbox in there]
        return step.later(LOOK_S) if any(waiting) else step.again()
    return step.now() + SLOW


async def begin_work(step: Step) -> datetime:
    """Planning is over: its sandbox goes, its session is kept. What people said last and it had not taken in is handed
    to the sandbox of the first task.
    """
    if step.approval_required:
        await tell_plan(step, step.spec.plan_hash or "")  # by whom it was approved
    for sandbox in step.sandboxes:
        if sandbox.task_id is None and sandbox.removed_at is None:
            await let_go(step, sandbox, "planned")
    async with step.saving(state=SpecState.IMPLEMENTING) as session:
        await owe_sub_issues(step, session)
    return step.again()
