"""What the worker compares GitHub's live state with: work under way, known repositories, what was heard of labels."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import Delivery, Installation, Repository, Spec
from app.domain.spoken import Tells
from app.domain.states import SPEC_LIVE


@dataclass(frozen=True)
class LiveWork:
    """A live spec and where it lives. `pull_number` None: it has no pull request yet."""

    spec_id: str
    repository: Repository
    issue_number: int
    trigger_label: str
    trigger_label_id: int | None
    pull_number: int | None
    pull_state: str | None
    head_sha: str | None
    push_sha: str | None
    base_branch: str | None
    begun_at: datetime
    """When its label was set, by GitHub's clock if that is known."""


async def list_live_work(session: AsyncSession) -> Sequence[LiveWork]:
    """Every live spec whose repository is known, oldest first."""
    statement = (
        select(Spec, Repository)
        .join(Repository, Repository.id == Spec.repo_id)
        .where(Spec.state.in_(SPEC_LIVE))
        .order_by(Spec.created_at)
    )
    return [
        LiveWork(
            spec.id,
            repository,
            spec.issue_number,
            spec.trigger_label,
            spec.trigger_label_id,
            spec.pull_number,
            spec.pull_state,
            spec.head_sha,
            spec.push_sha,
            spec.base_branch,
            spec.labeled_at or spec.created_at,
        )
        for spec, repository in await session.execute(statement)
    ]


async def list_open_repositories(session: AsyncSession) -> Sequence[Repository]:
    """Those that the App can work in: neither they nor their installation are gone or suspended."""
    statement = (
        select(Repository)
        .join(Installation, Installation.id == Repository.installation_id)
        .where(Repository.state == "active", Installation.state == "active")
        .order_by(Repository.id)
    )
    return (await session.scalars(statement)).all()


async def find_known_deliveries(session: AsyncSession, guids: Collection[str]) -> frozenset[str]:
    """Those of `guids` that are stored here."""
    found: set[str] = set()
    ordered = sorted(guids)
    for start in range(0, len(ordered), 500):
        part = ordered[start : start + 500]
        found |= set(await session.scalars(select(Delivery.id).where(Delivery.id.in_(part))))
    return frozenset(found)


async def list_label_deliveries(session: AsyncSession, repo_id: int, issue_number: int) -> Sequence[Delivery]:
    """The newest twenty that told of a label set on that issue."""
    statement = (
        select(Delivery)
        .where(
            Delivery.repo_id == repo_id,
            Delivery.issue_number == issue_number,
            Delivery.event == "issues",
            Delivery.action == "labeled",
        )
        .order_by(Delivery.received_at.desc())
        .limit(20)
    )
    return (await session.scalars(statement)).all()


async def list_word_deliveries(
    session: AsyncSession, repo_id: int, numbers: Collection[int], since: datetime
) -> Sequence[Delivery]:
    """Deliveries that told of words on those issues and pull requests (of reviews on any), of those received since."""
    statement = select(Delivery).where(
        Delivery.repo_id == repo_id,
        # Events about a pull request's reviews are stored without a number.
        or_(Delivery.issue_number.in_(numbers), Delivery.issue_number.is_(None)),
        Delivery.event.in_(get_args(Tells)),
        Delivery.received_at >= since,
    )
    return (await session.scalars(statement)).all()
