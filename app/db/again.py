"""SQL of saying again what an agent was told and did not follow: when people want the same tried anew."""

from __future__ import annotations

import uuid
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.messages import NewMessage, record_message_of_spec
from app.db.models import Message, ReviewBatch, ReviewWord, Sandbox, Spec, UnresolvedThread
from app.db.reviews import NewBatch, record_batch
from app.domain.states import MessageState
from sandbox_payload.wire import MessageType

_UNHEARD = (MessageState.QUEUED, MessageState.SENT)


async def say_again(session: AsyncSession, spec: Spec, now: datetime) -> None:
    """What the spec's agents were given up with, to the next one. Again changes nothing. The caller holds the spec's row."""
    await _repeat_messages(session, spec, now)
    failed = select(ReviewBatch.id).where(ReviewBatch.spec_id == spec.id, ReviewBatch.failed_at.is_not(None))
    for batch_id in (await session.scalars(failed.order_by(ReviewBatch.opened_at))).all():
        await renew_batch(session, spec, batch_id, now)


async def _repeat_messages(session: AsyncSession, spec: Spec, now: datetime) -> None:
    """Words that a run failed with before it had taken them in; those of reviews are read anew instead."""
    refused = (
        select(Message)
        .join(Sandbox, Sandbox.id == Message.sandbox_id)
        .where(
            Message.spec_id == spec.id, Message.state == MessageState.REFUSED, Sandbox.task_id.is_not(None),
            Message.message_type.in_({MessageType.USER_MESSAGE.value, MessageType.SYSTEM.value}),
            Message.id.not_in(select(ReviewBatch.id).where(ReviewBatch.spec_id == spec.id)),
        )
        .order_by(Message.created_at, Message.seq)
    )  # fmt: skip
    for row in (await session.scalars(refused)).all():
        new = NewMessage(
            row.message_type, row.content, author_id=row.author_id, id=repeated_id(row.id),
            comment_id=row.comment_id, author_login=row.author_login, place=row.place,
        )  # fmt: skip
        if await session.get(Message, new.id) is None:
            await record_message_of_spec(session, spec.id, new, now)


async def renew_batch(session: AsyncSession, spec: Spec, batch_id: uuid.UUID, now: datetime) -> uuid.UUID:
    """Its words and threads become a batch that is read anew now, with a message and answers of its own; once. Returns
    that one's id. The caller holds the spec's row.
    """
    old = await session.get(ReviewBatch, batch_id, populate_existing=True)
    new_id = repeated_id(batch_id)
    if old is None or await session.get(ReviewBatch, new_id) is not None:
        return new_id
    like_it = NewBatch(old.pull_number, old.author_id, old.author_login, opened_at=now, id=new_id)
    new, _ = await record_batch(session, spec, like_it, now)
    old.failed_at = None
    if (told := await session.get(Message, old.id)) is not None and told.state in _UNHEARD:
        told.state = MessageState.REFUSED
    await session.flush()
    await session.execute(update(ReviewWord).where(ReviewWord.batch_id == old.id).values(batch_id=new.id))
    await session.execute(
        update(UnresolvedThread)
        .where(UnresolvedThread.batch_id == old.id)
        .values(batch_id=new.id, unresolved_at=None, heard_at=now)
    )
    return new_id


async def is_renewed(session: AsyncSession, batch: ReviewBatch) -> bool:
    """Whether it is a batch's that was given up: the commands in its words have been followed."""
    of_spec = await session.scalars(select(ReviewBatch.id).where(ReviewBatch.spec_id == batch.spec_id))
    return batch.id in {repeated_id(one) for one in of_spec}


def repeated_id(one: uuid.UUID) -> uuid.UUID:
    """Of the message or batch that says the same again."""
    return uuid.uuid5(one, "again")
