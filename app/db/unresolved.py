"""SQL of threads that people opened again: which batch takes each up, once, and which are in an agent's hands anyway."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import exists, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.again import renew_batch
from app.db.models import Effect, Message, ReviewBatch, ReviewThread, Spec, UnresolvedThread
from app.db.reviews import (
    NewBatch,
    find_batch,
    find_message_of,
    join_open_batch,
    key_of_look,
    list_unsent_batches,
)
from app.domain.states import EffectState, MessageState

_GIVEN = (MessageState.SENT, MessageState.ACKNOWLEDGED)
_TAKEN_UP = (MessageState.QUEUED, *_GIVEN)
_UNSENT = (MessageState.QUEUED, MessageState.CANCELLED)


@dataclass(frozen=True)
class Unresolved:
    """One thread, by its first comment, was opened again. `at` by GitHub's clock, None where the event did not tell."""

    pull_number: int
    root_id: int
    at: datetime | None
    person_id: int
    login: str


async def take_up_thread(session: AsyncSession, spec: Spec, asked: Unresolved, now: datetime) -> None:
    """Have a batch take up that thread, unless an agent is at it or this was heard before. The caller holds the spec's
    row.
    """
    key = (spec.repo_id, asked.root_id)
    row = await session.get(UnresolvedThread, key, populate_existing=True)
    before = row.unresolved_at if row else None
    if asked.at is not None and before is not None and asked.at <= before:
        return
    batch_id = row.batch_id if row else None
    if batch_id is None or not await _is_unsent(session, batch_id):
        if await is_given(session, spec.id, asked.root_id):
            batch_id = None
        elif (failed := await _find_failed(session, spec.id, asked.root_id)) is not None:
            batch_id = await renew_batch(session, spec, failed, now)
        else:
            new = NewBatch(asked.pull_number, asked.person_id, asked.login, opened_at=now)
            batch_id, _ = await join_open_batch(session, spec, new, alone=False)
    await session.merge(
        UnresolvedThread(
            repo_id=spec.repo_id, root_id=asked.root_id, batch_id=batch_id, unresolved_at=asked.at, heard_at=now
        )
    )  # fmt: skip
    await session.flush()


async def _is_unsent(session: AsyncSession, batch_id: uuid.UUID) -> bool:
    """Whether it is read again, or for the first time, before an agent is given anything of it."""
    batch, message = await find_batch(session, batch_id), await find_message_of(session, batch_id)
    if batch is None or batch.answered_at is not None:
        return False
    return message is None or (message.sent_at is None and message.state in _UNSENT)


async def is_given(session: AsyncSession, spec_id: str, root_id: int) -> bool:
    """Whether an agent has it and has not answered yet."""
    statement = (
        select(Message.id)
        .join(ReviewBatch, ReviewBatch.id == Message.id)
        .join(ReviewThread, ReviewThread.batch_id == ReviewBatch.id)
        .where(
            ReviewBatch.spec_id == spec_id, ReviewBatch.answered_at.is_(None), ReviewThread.root_id == root_id,
            Message.state.in_(_GIVEN),
        )
    )  # fmt: skip
    return await session.scalar(statement.limit(1)) is not None


async def _find_failed(session: AsyncSession, spec_id: str, root_id: int) -> uuid.UUID | None:
    """The newest batch that speaks in that thread, if its round failed: it waits for a retry."""
    statement = (
        select(ReviewBatch)
        .join(ReviewThread, ReviewThread.batch_id == ReviewBatch.id)
        .where(ReviewBatch.spec_id == spec_id, ReviewThread.root_id == root_id)
        .order_by(ReviewBatch.opened_at.desc())
    )
    newest: ReviewBatch | None = await session.scalar(statement.limit(1))
    return newest.id if newest is not None and newest.failed_at is not None else None


async def list_unresolved(session: AsyncSession, batch: ReviewBatch) -> Sequence[tuple[int, datetime | None]]:
    """Threads that the batch takes up because they were opened again: first comment, and when by GitHub's clock. Those
    that another batch had in hand then, or has by now, are that one's.
    """
    elsewhere = exists().where(
        ReviewThread.root_id == UnresolvedThread.root_id, ReviewThread.batch_id != batch.id,
        ReviewBatch.id == ReviewThread.batch_id, ReviewBatch.spec_id == batch.spec_id,
        Message.id == ReviewBatch.id, Message.state.in_(_TAKEN_UP),
        or_(ReviewBatch.answered_at.is_(None), ReviewBatch.answered_at >= UnresolvedThread.heard_at),
    )  # fmt: skip
    statement = (
        select(UnresolvedThread.root_id, UnresolvedThread.unresolved_at)
        .where(UnresolvedThread.batch_id == batch.id, ~elsewhere)
        .order_by(UnresolvedThread.root_id)
    )
    return [(root_id, at) for root_id, at in await session.execute(statement)]


async def find_unsent_batch(session: AsyncSession, repo_id: int, root_id: int) -> uuid.UUID | None:
    """The batch that takes up that thread and of which no agent has been given anything."""
    row = await session.get(UnresolvedThread, (repo_id, root_id), populate_existing=True)
    if row is None or row.batch_id is None or not await _is_unsent(session, row.batch_id):
        return None
    return row.batch_id


async def has_pending_looks(session: AsyncSession, repo_id: int, batch: ReviewBatch) -> bool:
    """Whether another batch of the spec, whose message may still change, is about to be read."""
    others = [one for one in await list_unsent_batches(session, batch.spec_id) if one != batch.id]
    found = [await find_batch(session, one) for one in others]
    keys = [key_of_look(repo_id, one) for one in found if one is not None]
    pending = select(Effect.id).where(Effect.key.in_(keys), Effect.state == EffectState.PENDING)
    return await session.scalar(pending.limit(1)) is not None
