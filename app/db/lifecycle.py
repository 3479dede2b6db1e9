"""SQL for what happens to the branch, the pull request or the repository of specs from outside."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import Spec
from app.db.specs import TOLD_LATE
from app.domain.states import SPEC_LIVE


async def list_live_on_branch(session: AsyncSession, repo_id: int, branch: str) -> Sequence[Spec]:
    """Live specs whose branch has that name."""
    statement = select(Spec).where(
        Spec.repo_id == repo_id, Spec.branch == branch, Spec.state.in_(SPEC_LIVE), Spec.head_sha.is_not(None)
    )
    return (await session.scalars(statement)).all()


async def record_branch_told(session: AsyncSession, spec_id: str, now: datetime) -> None:
    """Somebody else moved or deleted the branch of a live spec: a step is to look at it."""
    await session.execute(
        update(Spec)
        .where(Spec.id == spec_id, Spec.state.in_(SPEC_LIVE), Spec.head_sha.is_not(None))
        .values(branch_told=Spec.branch_told + 1, version=Spec.version + 1, updated_at=now)
    )


async def record_base(session: AsyncSession, spec_id: str, base_branch: str, now: datetime) -> None:
    """The pull request of a live spec leads to another branch now."""
    await session.execute(
        update(Spec)
        .where(Spec.id == spec_id, Spec.state.in_(SPEC_LIVE), Spec.base_branch != base_branch)
        .values(base_branch=base_branch, version=Spec.version + 1, updated_at=now)
    )


async def record_installation_of(
    session: AsyncSession, repo_id: int, installation_id: int, now: datetime
) -> None:
    """The repository belongs to another owner, who has the App too: its specs go on there, at their next step."""
    await session.execute(
        update(Spec)
        .where(Spec.repo_id == repo_id, Spec.installation_id != installation_id)
        .values(installation_id=installation_id, updated_at=now)
    )


async def record_access_back_to(
    session: AsyncSession, repo_id: int, now: datetime, *, issue_number: int | None = None
) -> list[str]:
    """A repository, or one issue of it, can be written to again: what could not be told there is tried again now.
    Returns the specs that this wakes.
    """
    conditions: list[ColumnElement[bool]] = [
        Spec.repo_id == repo_id,
        or_(Spec.status_untold.is_not(None), Spec.check_untold.is_not(None)),
        or_(Spec.ended_at.is_(None), Spec.ended_at > now - TOLD_LATE),
    ]
    if issue_number is not None:
        conditions.append(Spec.issue_number == issue_number)
    statement = (
        update(Spec)
        .where(*conditions)
        .values(
            status_untold=None, status_refused_at=None, check_untold=None, concluded_at=None,
            version=Spec.version + 1, updated_at=now,
        )
        .returning(Spec.id)
    )  # fmt: skip
    return list((await session.execute(statement)).scalars())
