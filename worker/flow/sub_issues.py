"""Where a repository wants it, each task of the plan has an issue of its own below the one that is worked on."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncSession

from app.db.sub_issues import record_sub_issue, record_sub_issue_end
from app.domain.markers import task_marker
from app.domain.plan import CLOSING, FOLLOW_UP
from app.domain.render_sub_issue import render_sub_issue
from app.domain.secrets_scan import redact
from worker.step import Step


async def owe_sub_issues(step: Step, session: AsyncSession) -> None:
    """With the commit in which the work on a plan begins."""
    if not step.settings.sub_issues:
        return
    requirements = step.outputs["requirements"]["requirements"]
    criteria = {
        one["id"]: redact(one["text"], step.parts.secrets) for row in requirements for one in row["criteria"]
    }
    for task in step.tasks:
        if _has_issue(task.key, task.detail.get("kind")):
            detail = {
                **task.detail,
                "title": redact(task.detail["title"], step.parts.secrets),
                "description": redact(task.detail["description"], step.parts.secrets),
            }
            issue = render_sub_issue(step.spec.id, step.spec.issue_number, detail, criteria)
            await record_sub_issue(session, step.spec, task.id, issue, step.now())


async def owe_sub_issue_end(step: Step, session: AsyncSession) -> None:
    """With the commit in which the step's task is done."""
    task = step.task
    if step.settings.sub_issues and step.spec.plan_hash and _has_issue(task.key, task.detail.get("kind")):
        marker = task_marker(step.spec.id, task.key)
        await record_sub_issue_end(session, step.spec, task.id, marker, step.now())


def _has_issue(key: str, kind: object) -> bool:
    return key != CLOSING and kind != FOLLOW_UP
