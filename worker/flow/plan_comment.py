"""The plan comment: the plan as people see it, one comment, edited in place."""

from __future__ import annotations

from app.db.pace import writing
from app.domain.ids import IssueNumber
from app.domain.markers import plan_marker
from app.domain.pace import Urgency
from app.domain.render_plan import diff_plans, render_plan
from app.domain.secrets_scan import redact
from app.domain.states import TaskState
from app.domain.view import PlanView
from app.observability.crashpoints import crashpoint
from worker.step import Step


async def tell_plan(step: Step, whole: str) -> None:
    """Bring the comment up to date with the plan of that hash, who approved it, and which tasks are done. A new plan is a new revision,
    which says what changed since the last.
    """
    spec, outputs = step.spec, step.outputs
    is_new = spec.plan_shown_hash != whole
    revision = spec.plan_revision + is_new
    changes = diff_plans(spec.plan_shown, outputs) if spec.plan_shown and is_new else ()
    approved = spec.approved_hash == whole
    plan = PlanView.of(
        outputs,
        next((row.output or {} for row in step.phases if row.name == "sync"), {}),
        spec_id=spec.id,
        issue_number=spec.issue_number,
        revision=revision,
        full_hash=whole,
        scores={row.name: row.score for row in step.phases if row.score is not None},
        changes=changes,
        done=frozenset(task.key for task in step.tasks if task.state is TaskState.COMPLETED),
        approval_awaited=step.approval_required and not approved,
        approved_by=(spec.approved_by or "") if approved else "",
        approved_label=step.labels.approved,
    )
    crashpoint("plan_comment.before")
    with writing(Urgency.WORK):
        comment = await step.parts.github.ensure_comment(
            step.repo,
            IssueNumber(spec.issue_number),
            plan_marker(spec.id),
            redact(render_plan(plan), step.parts.secrets),
            known_id=spec.plan_comment_id,
        )
    crashpoint("plan_comment.after")
    await step.save(
        plan_comment_id=comment.comment_id,
        plan_comment_url=comment.html_url or None,
        plan_hash=whole,
        plan_shown_hash=whole,
        plan_shown=outputs,
        plan_revision=revision,
    )
