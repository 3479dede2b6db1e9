"""SQL about the checks of other Apps on heads of ours."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.again import repeated_id
from app.db.dialect import insert_for
from app.db.models import CheckedHead, Message, Spec
from app.domain.states import MessageState, SpecState

_NAMESPACE = uuid.UUID("5f0c7a52-3c0b-4a52-9f5e-6b1f7d0e2c11")


def failure_message_id(spec_id: str, head_sha: str) -> uuid.UUID:
    """Of the message about a head's failed checks, so that a head has one."""
    return uuid.uuid5(_NAMESPACE, f"{spec_id}:{head_sha}")


async def find_checked_head(session: AsyncSession, spec_id: str, head_sha: str) -> CheckedHead | None:
    statement = select(CheckedHead).where(CheckedHead.spec_id == spec_id, CheckedHead.head_sha == head_sha)
    found: CheckedHead | None = await session.scalar(statement.execution_options(populate_existing=True))
    return found


async def record_ready_head(
    session: AsyncSession, spec_id: str, head_sha: str, ready_at: datetime, now: datetime
) -> None:
    """That head is ready for review since then: its checks are to be looked at now. Again for the same time is a no-op."""
    values = {"spec_id": spec_id, "head_sha": head_sha, "ready_at": ready_at, "due_at": now, "heard": 0}
    await session.execute(insert_for(session, CheckedHead).values(values).on_conflict_do_nothing())
    await session.execute(
        update(CheckedHead)
        .where(
            CheckedHead.spec_id == spec_id, CheckedHead.head_sha == head_sha, CheckedHead.ready_at != ready_at
        )
        .values(ready_at=ready_at, due_at=now)
    )


async def list_specs_checked(session: AsyncSession, repo_id: int, head_sha: str) -> Sequence[str]:
    """Ids of specs in review whose head that is."""
    statement = (
        select(Spec.id)
        .join(CheckedHead, CheckedHead.spec_id == Spec.id)
        .where(
            Spec.repo_id == repo_id, Spec.state == SpecState.IN_REVIEW, Spec.head_sha == head_sha,
            CheckedHead.head_sha == head_sha,
        )
    )  # fmt: skip
    return (await session.scalars(statement)).all()


async def record_checks_heard(session: AsyncSession, spec_id: str, head_sha: str, look_at: datetime) -> None:
    """Something changed among its checks: look at `look_at`, if no look is due before."""
    await session.execute(
        update(CheckedHead)
        .where(CheckedHead.spec_id == spec_id, CheckedHead.head_sha == head_sha)
        .values(heard=CheckedHead.heard + 1)
    )
    await session.execute(
        update(CheckedHead)
        .where(
            CheckedHead.spec_id == spec_id, CheckedHead.head_sha == head_sha,
            or_(CheckedHead.due_at.is_(None), CheckedHead.due_at > look_at),
        )
        .values(due_at=look_at)
    )  # fmt: skip


async def record_look(session: AsyncSession, seen: CheckedHead, look_at: datetime | None) -> None:
    """A look is over and the next one is at `look_at`; unless something was heard since `seen` was read."""
    await session.execute(
        update(CheckedHead)
        .where(
            CheckedHead.spec_id == seen.spec_id, CheckedHead.head_sha == seen.head_sha,
            CheckedHead.heard == seen.heard,
        )
        .values(due_at=look_at)
    )  # fmt: skip


async def record_told(session: AsyncSession, seen: CheckedHead, now: datetime, *, asked: bool) -> None:
    """Its failure has been dealt with; `asked`: by a follow-up."""
    await session.execute(
        update(CheckedHead)
        .where(CheckedHead.spec_id == seen.spec_id, CheckedHead.head_sha == seen.head_sha)
        .values(told_at=now, due_at=None, asked_at=now if asked else None)
    )


async def count_fixes(session: AsyncSession, spec_id: str) -> int:
    """Follow-ups that failed checks of the spec's pull request have led to."""
    statement = select(func.count()).select_from(CheckedHead)
    return (
        await session.scalar(
            statement.where(CheckedHead.spec_id == spec_id, CheckedHead.asked_at.is_not(None))
        )
        or 0
    )


async def forget_heads(session: AsyncSession, spec_id: str) -> None:
    """The spec begins a new branch: what its earlier pull request's checks have led to does not count for the next, and
    what the agent has not taken in of them is not said any more.
    """
    await withdraw_failures(session, spec_id)
    await session.execute(delete(CheckedHead).where(CheckedHead.spec_id == spec_id))


async def withdraw_failures(session: AsyncSession, spec_id: str) -> None:
    """What no agent has taken in of failed checks is not said any more: the commits that they were about are history.
    Again changes nothing.
    """
    asked = select(CheckedHead.head_sha).where(
        CheckedHead.spec_id == spec_id, CheckedHead.asked_at.is_not(None)
    )
    for head_sha in (await session.scalars(asked)).all():
        await _withdraw(session, failure_message_id(spec_id, head_sha))


async def _withdraw(session: AsyncSession, message_id: uuid.UUID) -> None:
    """Also as it was said again after runs that had failed with it."""
    while await session.scalar(select(Message.id).where(Message.id == message_id)) is not None:
        await session.execute(
            update(Message)
            .where(Message.id == message_id, Message.state.in_({MessageState.QUEUED, MessageState.SENT}))
            .values(state=MessageState.CANCELLED)
            .execution_options(synchronize_session=False)
        )
        message_id = repeated_id(message_id)
