"""SQL of the last word to an agent whose work was cancelled: wrap up, the sandbox ends in a moment."""

from __future__ import annotations

import uuid
from datetime import datetime

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.messages import NewMessage, record_message
from app.db.models import Message, Sandbox
from app.domain.ids import SandboxId
from app.domain.states import MessageState
from sandbox_payload.wire import MessageType

_NAMESPACE = uuid.UUID("6b0d5f5e-6f0c-4e0e-9a53-0d2f7a1c4b11")


def wrap_up_id(sandbox_id: str, cancel_asked_at: datetime) -> uuid.UUID:
    """The same for each look at one cancellation, so that it is said once."""
    return uuid.uuid5(_NAMESPACE, f"{sandbox_id}@{cancel_asked_at.isoformat()}")


async def find_wrap_up(session: AsyncSession, message_id: uuid.UUID) -> Message | None:
    return await session.get(Message, message_id)


async def record_wrap_up(
    session: AsyncSession, sandbox_id: str, message_id: uuid.UUID, text: str, now: datetime
) -> bool:
    """Queue it for a live sandbox; False when that has ended. Again changes nothing."""
    message = NewMessage(MessageType.SYSTEM.value, text, id=message_id)
    return await record_message(session, SandboxId(sandbox_id), message, now) is not None


async def withdraw_wrap_up(session: AsyncSession, message_id: uuid.UUID) -> None:
    """It was about that sandbox alone: whatever is handed to a later one, this is not."""
    await session.execute(
        update(Message)
        .where(Message.id == message_id, Message.state.in_({MessageState.QUEUED, MessageState.SENT}))
        .values(state=MessageState.CANCELLED)
        .execution_options(synchronize_session=False)
    )


async def was_interrupted_since(session: AsyncSession, spec_id: str, since: datetime) -> bool:
    """Whether somebody asked for an end without a grace."""
    statement = (
        select(Message.id)
        .outerjoin(Sandbox, Sandbox.id == Message.sandbox_id)
        .where(
            func.coalesce(Message.spec_id, Sandbox.spec_id) == spec_id,
            Message.message_type == MessageType.INTERRUPT.value,
            Message.created_at >= since,
        )
        .limit(1)
    )
    return await session.scalar(statement) is not None
