"""What is owed to the issues of a plan's tasks: made when work begins, closed when their task is done."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.effects import record_effect
from app.db.models import Effect, Spec
from app.domain.render_sub_issue import SubIssue
from app.domain.states import EffectState


async def record_sub_issue(
    session: AsyncSession, spec: Spec, task_id: str, issue: SubIssue, now: datetime
) -> None:
    payload = {
        "issue": spec.issue_number,
        "marker": issue.marker,
        "title": issue.title,
        "body": issue.body,
    }
    key, repo = _key(spec, task_id), (spec.installation_id, spec.repo_id)
    await record_effect(session, kind="sub_issue", key=key, repo=repo, payload=payload, now=now)


async def record_sub_issue_end(
    session: AsyncSession, spec: Spec, task_id: str, marker: str, now: datetime
) -> None:
    payload = {"issue": spec.issue_number, "marker": marker, "after": _key(spec, task_id)}
    key, repo = f"{_key(spec, task_id)}:end", (spec.installation_id, spec.repo_id)
    await record_effect(session, kind="sub_issue_end", key=key, repo=repo, payload=payload, now=now)


async def is_sub_issue_owed(session: AsyncSession, key: str) -> bool:
    """Whether the issue of that key is still to be made."""
    state = await session.scalar(select(Effect.state).where(Effect.key == key))
    return state is EffectState.PENDING


def _key(spec: Spec, task_id: str) -> str:
    return f"{spec.repo_id}:sub_issue:{task_id}"
