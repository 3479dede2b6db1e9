"""A round on work that was in review already, which came to no end: it goes on by itself, or people may try it again."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from app.db.messages import give_up_messages
from app.db.models import Sandbox
from app.db.phases import record_follow_up
from app.db.sandboxes import set_sandbox
from app.domain.notices import FOLLOW_UP_FAILED, SANDBOX_LOST, TROUBLES
from app.domain.states import SpecState, TaskState
from app.domain.supervision import FINAL
from sandbox_payload.wire import Manifest
from worker.flow.answer import owe_answers, owe_failed_answers
from worker.flow.follow import follow_up_item, goes_on
from worker.flow.lost import RESTARTED
from worker.flow.model_key import key_trouble
from worker.flow.take_result import Taken
from worker.step import Step


def is_in_round(step: Step, sandbox: Sandbox) -> bool:
    """Whether the sandbox works on what was said about finished work. Such a round belongs to no task."""
    in_review = step.spec.state is SpecState.IN_REVIEW and sandbox.task_id is not None
    return in_review and sandbox.activity == "working"


async def record_round_to_go_on(step: Step, session: AsyncSession) -> None:
    """Make a task of the round, so that it goes on later. Again changes nothing."""
    if any(goes_on(task) and task.state is TaskState.PENDING for task in step.tasks):
        return
    item = {**follow_up_item(step), "goes_on": True}
    step.tasks.append(await record_follow_up(session, step.spec.id, item, step.now()))


async def record_failed_round(step: Step, session: AsyncSession, sandbox: Sandbox, reason: str) -> None:
    """Make a failed task of the round, for a retry; its threads are told, what it did not take in waits for nobody. Once
    for that sandbox.
    """
    if any(task.detail.get("round_of") == sandbox.id for task in step.tasks):
        return
    item = {**follow_up_item(step), "goes_on": True, "round_of": sandbox.id}
    step.tasks.append(await record_follow_up(session, step.spec.id, item, step.now(), TaskState.FAILED))
    await owe_failed_answers(step, session, sandbox, reason)
    await give_up_messages(session, sandbox.id)


async def note_lost_round(step: Step, sandbox: Sandbox) -> None:
    """The sandbox ended in the middle of a round, without a manifest. Before it is let go of."""
    trouble = sandbox.trouble or ""
    if trouble not in FINAL:
        async with step.saving() as session:
            await record_round_to_go_on(step, session)
        return
    text = key_trouble(step, sandbox) or TROUBLES.get(trouble) or SANDBOX_LOST.format(reason=trouble)
    notes = [*step.spec.notes, FOLLOW_UP_FAILED.format(reason=text)]
    async with step.saving(notes=notes) as session:
        await record_failed_round(step, session, sandbox, trouble)


async def take_cut_round(
    step: Step, sandbox: Sandbox, manifest: Manifest, taken: Taken, text: str, values: dict[str, object]
) -> datetime:
    """A manifest that says the round failed or was stopped, whose commits are on the branch by now (`values` say so).
    Where that says nothing about the work (somebody paused it, the machine or the agent's process was killed), it goes
    on as a task, with as many attempts as any; else it is said that it failed, for `text`.
    """
    stopped = manifest.status == "cancelled" and sandbox.trouble not in FINAL
    again = stopped or manifest.reason in RESTARTED
    if not again:
        values = {**values, "notes": [*step.spec.notes, FOLLOW_UP_FAILED.format(reason=text)]}
    async with step.saving(**values) as session:
        await set_sandbox(
            session, sandbox.id, step.now(), collected_round=manifest.round, session_id=manifest.session_id
        )
        if again:
            await record_round_to_go_on(step, session)
        else:
            await owe_answers(step, session, sandbox, manifest, taken)
            await record_failed_round(step, session, sandbox, manifest.reason)
    sandbox.collected_round = manifest.round
    return step.again()
