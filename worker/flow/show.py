"""The plan as people see it: one comment; then it waits for approval, or the work begins."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from app.db.pace import writing
from app.domain.ids import IssueNumber
from app.domain.markers import questions_marker
from app.domain.pace import Urgency
from app.domain.plan import plan_hash
from app.domain.render_plan import render_questions
from app.domain.secrets_scan import redact
from app.domain.states import SpecState
from app.domain.view import QuestionView
from app.observability.crashpoints import crashpoint
from worker.flow.approve import begin_work
from worker.flow.plan_comment import tell_plan
from worker.step import Step


async def run(step: Step) -> datetime:
    spec = step.spec
    outputs = step.outputs
    whole = plan_hash(outputs)
    if spec.plan_shown_hash != whole:
        await tell_plan(step, whole)
    if step.approval_required and spec.approved_hash != whole:
        await _ask(step, outputs)
        if spec.state is not SpecState.AWAITING_APPROVAL:
            await step.save(state=SpecState.AWAITING_APPROVAL)
        return step.again()
    return await begin_work(step)


async def _ask(step: Step, outputs: dict[str, dict[str, Any]]) -> None:
    """What only people can answer, once, in one comment. The plan goes on what the agent assumed until they do."""
    spec = step.spec
    asked = [one for one in outputs["explore"]["open_questions"] if one["blocking"]]
    if not asked or spec.questions_comment_id is not None:
        return
    questions = [QuestionView(one["id"], one["question"], one["blocking"]) for one in asked]
    body = redact(
        render_questions(spec.id, questions, outputs["requirements"]["assumptions"]), step.parts.secrets
    )
    crashpoint("questions.before")
    with writing(Urgency.WORK):
        comment = await step.parts.github.ensure_comment(
            step.repo, IssueNumber(spec.issue_number), questions_marker(spec.id), body, known_id=None
        )
    crashpoint("questions.after")
    await step.save(questions_comment_id=comment.comment_id, questions_comment_url=comment.html_url or None)
