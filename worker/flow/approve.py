"""The plan waits for somebody's yes. Meanwhile its sandbox waits for what people say, and goes."""

from __future__ import annotations

from datetime import datetime

from app.db.messages import give_up_messages
from app.db.models import Sandbox
from app.domain.notices import REVISION_FAILED
from app.domain.states import SpecState
from worker.flow.let_go import let_go
from worker.flow.lost import pause_s
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
        if any(waiting):
            return step.later(LOOK_S)
        return await _count_lost(step, there) or step.again()
    return step.now() + SLOW


async def _count_lost(step: Step, gone: list[Sandbox]) -> datetime | None:
    """When to try again with what people said, after sandboxes that ended before they handed anything in; a few times,
    each later than the one before. Then it is told, and the plan as shown still stands.
    """
    if all(sandbox.manifest_round for sandbox in gone):
        return None
    attempts = step.spec.plan_attempts + 1
    if attempts < step.parts.limits.max_attempts:
        await step.save(plan_attempts=attempts)
        return step.later(pause_s(attempts))
    reason = f"Its sandbox ended before it was done, {attempts} times."
    notes = [*step.spec.notes, REVISION_FAILED.format(reason=reason)]
    async with step.saving(plan_attempts=0, notes=notes) as session:
        for sandbox in gone:
            await give_up_messages(session, sandbox.id)
    return step.again()


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
