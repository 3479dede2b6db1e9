"""Messages for an agent: numbered per sandbox, read by cursor, never taken away by reading."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import Message
from app.db.sandbox_access import lock_live
from app.domain.ids import SandboxId
from app.domain.states import MessageState

_SHOWN = (MessageState.QUEUED, MessageState.SENT, MessageState.ACKNOWLEDGED)


@dataclass(frozen=True)
class NewMessage:
    """A text for the agent; `author_id` is the numeric user id of the person, None for the operator or the app."""

    message_type: str
    content: str
    author_id: int | None = None
    id: uuid.UUID | None = None


async def record_message(
    session: AsyncSession, sandbox_id: SandboxId, message: NewMessage, now: datetime
) -> Message | None:
    """Queue it for a live sandbox under the next number; None when that sandbox has ended or does not exist.

    The same `message.id` again returns the message that is there.
    """
    if await lock_live(session, sandbox_id) is None:
        return None
    if message.id is not None and (known := await session.get(Message, message.id)) is not None:
        return known if known.sandbox_id == sandbox_id else None
    highest = await session.scalar(select(func.max(Message.seq)).where(Message.sandbox_id == sandbox_id))
    row = Message(
        id=message.id or uuid.uuid4(),
        sandbox_id=sandbox_id,
        seq=(highest or 0) + 1,
        message_type=message.message_type,
        content=message.content,
        author_id=message.author_id,
        state=MessageState.QUEUED,
        created_at=now,
    )
    session.add(row)
    await session.flush()
    return row


async def list_messages(
    session: AsyncSession, sandbox_id: SandboxId, after: int, limit: int
) -> Sequence[Message]:
    """What the agent may see with a number above `after`, in order."""
    statement = (
        select(Message)
        .where(Message.sandbox_id == sandbox_id, Message.seq > after, Message.state.in_(_SHOWN))
        .order_by(Message.seq)
        .limit(limit)
        .execution_options(populate_existing=True)
    )
    return (await session.scalars(statement)).all()


async def record_sent(session: AsyncSession, ids: Sequence[uuid.UUID], now: datetime) -> None:
    """Queued → sent for those still queued."""
    await session.execute(
        update(Message)
        .where(Message.id.in_(ids), Message.state == MessageState.QUEUED)
        .values(state=MessageState.SENT, sent_at=now)
        .execution_options(synchronize_session=False)
    )


async def find_highest_seq(session: AsyncSession, sandbox_id: SandboxId) -> int:
    return await session.scalar(select(func.max(Message.seq)).where(Message.sandbox_id == sandbox_id)) or 0


async def record_acknowledged(
    session: AsyncSession, sandbox_id: SandboxId, message_id: uuid.UUID, now: datetime
) -> Message | None:
    """Sent → acknowledged. Returns the message as it stands then, whatever its state; None when it is not this
    sandbox's.
    """
    await session.execute(
        update(Message)
        .where(Message.id == message_id, Message.sandbox_id == sandbox_id, Message.state == MessageState.SENT)
        .values(state=MessageState.ACKNOWLEDGED, acknowledged_at=now)
        .execution_options(synchronize_session=False)
    )
    row: Message | None = await session.scalar(
        select(Message)
        .where(Message.id == message_id, Message.sandbox_id == sandbox_id)
        .execution_options(populate_existing=True)
    )
    return row
