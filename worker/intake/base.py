"""`/agent base BRANCH`: the branch that ours is to start from, as long as ours is not made."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import Spec
from app.db.pauses import record_base
from app.domain.commands import Base, Command
from app.domain.gitflow import is_branch_name
from app.domain.ports import GitHub, RepoRef
from app.domain.replies import (
    BASE_AFTER_PLAN,
    BASE_ENDED,
    BASE_ILLEGAL,
    BASE_LATE,
    BASE_MISSING,
    BASE_TAKEN,
    Facts,
    render_status_reply,
)
from app.domain.sanitize import escape_markdown, sanitize_line
from app.domain.states import SPEC_LIVE, SpecState


async def find_bases(github: GitHub, repo: RepoRef, commands: Iterable[Command]) -> frozenset[str]:
    """Of the branches that the commands name, those that exist. Read before anything is written."""
    names = {one.branch for one in commands if isinstance(one, Base) and is_branch_name(one.branch)}
    return frozenset([name for name in names if await github.fetch_branch(repo, name) is not None])


async def set_base(
    session: AsyncSession, spec: Spec, branch: str, existing: frozenset[str], now: datetime
) -> str:
    """Record the base; the reply that says so, or why not."""
    shown = escape_markdown(sanitize_line(branch, 255))
    if spec.state is SpecState.COMPLETED:
        return BASE_ENDED.format(status=render_status_reply(Facts(spec.state)))
    if not is_branch_name(branch):
        return BASE_ILLEGAL.format(branch=shown)
    if branch not in existing:
        return BASE_MISSING.format(branch=shown)
    if not await record_base(session, spec.id, branch, now):
        return BASE_LATE.format(base=spec.base_branch or "")
    if spec.state not in SPEC_LIVE:
        return f"{BASE_TAKEN.format(branch=branch)} {render_status_reply(Facts(spec.state, label_gone=spec.label_gone))}"
    planned = spec.state is not SpecState.QUEUED and spec.base_branch not in {None, branch}
    after = BASE_AFTER_PLAN.format(base=spec.base_branch) if planned else ""
    return BASE_TAKEN.format(branch=branch) + after
