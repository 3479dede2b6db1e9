"""Comments and the label of their issue, whose deliveries come in any order: by GitHub's own times, which of the two was
first?
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from app.db import specs
from app.db.looks import list_label_deliveries
from app.db.models import Delivery, Spec
from app.db.replay import list_ignored_comments, record_replay
from app.domain.ids import IssueNumber
from app.domain.labels import has_label
from app.domain.ports import RepoRef
from app.domain.states import SPEC_LIVE
from app.domain.triggers import CommentFacts, Happening, is_label, moment_of
from app.github.happening import to_happening
from app.github.payloads import Unreadable, parse_delivery
from worker.label_names import label_names
from worker.parts import Parts

SAME = timedelta(seconds=5)
"""By how much the label may be older than its delivery says: that is when the issue was changed the last time."""
CLOCKS = timedelta(hours=1)
"""By how much our clock, which says when a delivery came in, may be behind GitHub's."""


async def hear_again(
    session: AsyncSession, happening: Happening, labeled_at: datetime, now: datetime
) -> None:
    """In the transaction that records the issue's new spec: comments that follow the label, and of which nothing came
    since there was no work yet, are taken in once more.

    A comment that is being judged at this moment sees the spec when it is settled: both have written to their
    repository's row first, so one of them sees what the other has done.
    """
    repo_id = happening.repo.repo_id if happening.repo else 0
    heard = await list_ignored_comments(session, repo_id, happening.issue_number or 0, labeled_at - CLOCKS)
    for delivery in heard:
        if _follows(delivery, labeled_at):
            await record_replay(session, delivery.id, now)


def _follows(delivery: Delivery, labeled_at: datetime) -> bool:
    """Within the label's own second nobody can tell: words count then, commands were answered as said before it."""
    parsed = parse_delivery(delivery.event, delivery.body)
    comment = None if isinstance(parsed, Unreadable) else to_happening(parsed).comment
    said_at = moment_of(comment.edited_at) if comment is not None else None
    if said_at is None:
        return False
    return said_at > labeled_at or (said_at == labeled_at and delivery.intent != "command")


def said_before(spec: Spec | None, comment: CommentFacts) -> timedelta:
    """By how much the comment, as it reads now, is older than the label that the work began with; 0 when it isn't, or
    when nobody knows.
    """
    said_at = moment_of(comment.edited_at)
    if spec is None or spec.labeled_at is None or said_at is None:
        return timedelta()
    return max(spec.labeled_at - said_at, timedelta())


def told_label_at(delivery: Delivery, label: str) -> datetime | None:
    """When the label was set, as that delivery told; None when it was about another one."""
    parsed = parse_delivery(delivery.event, delivery.body)
    if isinstance(parsed, Unreadable):
        return None
    happening = to_happening(parsed)
    return moment_of(happening.issue_updated_at) if is_label(happening, None, label) else None


async def follows_unheard_label(parts: Parts, repo: RepoRef, spec: Spec, comment: CommentFacts) -> bool:
    """Whether the work has ended, or is being ended, and the comment was made since a label was set anew that no
    delivery has told of yet: then it is for the work that this label begins. Asked of GitHub, so only where it matters.
    """
    said_at = moment_of(comment.edited_at)
    if said_at is None or (spec.state in SPEC_LIVE and spec.cancel_asked_at is None):
        return False
    issue = await parts.github.fetch_issue(repo, IssueNumber(spec.issue_number))
    names = await label_names(parts, repo, None)
    for label in (names.quick, names.agent, names.plan):
        if issue.state == "closed" or not has_label(issue.labels, label):
            continue
        labeled_at = await parts.github.fetch_labeled_at(repo, issue.number, label)
        if (
            labeled_at is not None
            and labeled_at <= said_at
            and await _is_unheard(parts, spec, label, labeled_at)
        ):
            return True
    return False


async def _is_unheard(parts: Parts, spec: Spec, label: str, labeled_at: datetime) -> bool:
    async with parts.db.read() as session:
        newest = await specs.find_newest_label_event(session, spec.repo_id, spec.issue_number)
        deliveries = await list_label_deliveries(session, spec.repo_id, spec.issue_number)
    if newest is None or labeled_at <= newest + SAME:
        return False
    told = (told_label_at(delivery, label) for delivery in deliveries)
    return all(moment is None or abs(moment - labeled_at) > SAME for moment in told)
