"""Messages for an agent: numbered per sandbox, read by cursor, never taken away by reading.

One that comes while no sandbox of its spec lives waits with the spec and is handed to the next one, as is one that a
sandbox ended without confirming. Its id stays, so a session that knows it already takes it in once.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import Message, Sandbox, Spec
from app.db.sandbox_access import lock_live, lock_newest_live
from app.domain.ids import SandboxId
from app.domain.states import SANDBOX_LIVE, MessageState
from sandbox_payload.wire import MessageType

_SHOWN = (MessageState.QUEUED, MessageState.SENT, MessageState.ACKNOWLEDGED)
_WAITING = (MessageState.QUEUED, MessageState.SENT)


@dataclass(frozen=True)
class NewMessage:
    """A text for the agent; `author_id` is the numeric user id of the person, None for the operator or the app;
    `comment_id` the comment it stands in, None for others; `place` where the words stand, as in the table.
    """

    message_type: str
    content: str
    author_id: int | None = None
    id: uuid.UUID | None = None
    comment_id: int | None = None
    author_login: str | None = None
    place: str | None = None


async def record_message(
    session: AsyncSession, sandbox_id: SandboxId, message: NewMessage, now: datetime
) -> Message | None:
    """Queue it for a live sandbox under the next number; None when that sandbox has ended or does not exist.

    The same `message.id` again returns the message that is there.
    """
    sandbox = await lock_live(session, sandbox_id)
    if sandbox is None:
        return None
    if message.id is not None and (known := await session.get(Message, message.id)) is not None:
        return known if known.sandbox_id == sandbox_id else None
    row = _row(message, sandbox.spec_id, now)
    await _number(session, row, sandbox)
    return row


async def _number(session: AsyncSession, row: Message, sandbox: Sandbox) -> None:
    """Under the next number of that sandbox, whose row this transaction holds."""
    row.sandbox_id, row.seq = sandbox.id, await find_highest_seq(session, SandboxId(sandbox.id)) + 1
    session.add(row)
    await session.flush()


async def record_message_of_spec(
    session: AsyncSession, spec_id: str, message: NewMessage, now: datetime, *, held: bool = False
) -> Message:
    """Queue it for the newest live sandbox of the spec; with none alive, or `held`, it waits for the next one.

    The caller has written to the spec's row before, in this transaction: whoever records a sandbox writes to it too, so
    that one of the two sees the other's.
    """
    row = _row(message, spec_id, now)
    sandbox = None if held else await lock_newest_live(session, spec_id)
    if sandbox is not None:
        await _number(session, row, sandbox)
        return row
    session.add(row)
    await session.flush()
    return row


def _row(message: NewMessage, spec_id: str, now: datetime) -> Message:
    return Message(
        id=message.id or uuid.uuid4(),
        spec_id=spec_id,
        sandbox_id=None,
        seq=0,
        message_type=message.message_type,
        content=message.content,
        author_id=message.author_id,
        author_login=message.author_login,
        comment_id=message.comment_id,
        place=message.place,
        state=MessageState.QUEUED,
        created_at=now,
    )


async def count_said_since(session: AsyncSession, repo_id: int, author_id: int, since: datetime) -> int:
    """How many messages that person has sent to agents in the repository since then."""
    statement = (
        select(func.count())
        .select_from(Message)
        .join(Spec, Spec.id == Message.spec_id)
        .where(Message.author_id == author_id, Message.created_at >= since, Spec.repo_id == repo_id)
    )
    return await session.scalar(statement) or 0


async def list_live_sandboxes_of(session: AsyncSession, spec_id: str) -> Sequence[str]:
    """Ids, oldest first."""
    live = select(Sandbox.id).where(Sandbox.spec_id == spec_id, Sandbox.state.in_(SANDBOX_LIVE))
    return (await session.scalars(live.order_by(Sandbox.created_at))).all()


def _unheard(spec_id: str) -> tuple[ColumnElement[bool], ...]:
    """Words of people, and notices of our own about the result, that no live sandbox of the spec has. An interrupt was
    about the run it was sent to.
    """
    return (
        func.coalesce(Message.spec_id, Sandbox.spec_id) == spec_id,
        Message.state.in_(_WAITING),
        Message.message_type.in_({MessageType.USER_MESSAGE.value, MessageType.SYSTEM.value}),
        or_(Message.sandbox_id.is_(None), Sandbox.state.not_in(SANDBOX_LIVE)),
    )


async def has_waiting_messages(session: AsyncSession, spec_id: str) -> bool:
    """Whether somebody said something that no live sandbox of the spec has."""
    statement = select(Message.id).outerjoin(Sandbox, Sandbox.id == Message.sandbox_id)
    return await session.scalar(statement.where(*_unheard(spec_id)).limit(1)) is not None


async def claim_waiting_messages(
    session: AsyncSession, spec_id: str, sandbox_id: SandboxId, now: datetime
) -> int:
    """Hand what waits to that sandbox, whose row this transaction has just recorded; how many. Again changes nothing.

    One that was sent before keeps its state: it may be in the session that goes on, which knows it by its id.
    """
    statement = select(Message).outerjoin(Sandbox, Sandbox.id == Message.sandbox_id).where(*_unheard(spec_id))
    rows = (await session.scalars(statement.order_by(Message.created_at, Message.seq, Message.id))).all()
    seq = await find_highest_seq(session, sandbox_id)
    for position, row in enumerate(rows, 1):
        row.spec_id, row.sandbox_id, row.seq = spec_id, sandbox_id, seq + position
        if row.state is MessageState.SENT:
            row.sent_at = now
    await session.flush()
    return len(rows)


async def list_said(session: AsyncSession, spec_id: str, limit: int) -> Sequence[Message]:
    """What people said to the agents of the spec, the newest last; at most the newest `limit`."""
    statement = (
        select(Message)
        .outerjoin(Sandbox, Sandbox.id == Message.sandbox_id)
        .where(
            func.coalesce(Message.spec_id, Sandbox.spec_id) == spec_id,
            Message.message_type.in_({MessageType.USER_MESSAGE.value, MessageType.INTERRUPT.value}),
        )
        .order_by(Message.created_at.desc(), Message.seq.desc())
        .limit(limit)
    )
    return (await session.scalars(statement)).all()[::-1]


# ---------------------------------------------------------------- a comment that changes


async def give_up_messages(session: AsyncSession, sandbox_id: str) -> None:
    """What that sandbox has not confirmed is handed to no other one: a run that fails each time would never end."""
    await session.execute(
        update(Message)
        .where(Message.sandbox_id == sandbox_id, Message.state.in_(_WAITING))
        .values(state=MessageState.REFUSED)
        .execution_options(synchronize_session=False)
    )


async def refuse_waiting(session: AsyncSession, spec_id: str) -> None:
    """The spec has ended for good: what its agents have not confirmed, nobody hears any more."""
    of_spec = select(Sandbox.id).where(Sandbox.spec_id == spec_id)
    await session.execute(
        update(Message)
        .where(
            or_(Message.spec_id == spec_id, Message.sandbox_id.in_(of_spec)), Message.state.in_(_WAITING)
        )
        .values(state=MessageState.REFUSED)
        .execution_options(synchronize_session=False)
    )  # fmt: skip


async def list_messages_of_comment(session: AsyncSession, spec_id: str, comment_id: int) -> Sequence[Message]:
    """Those that came from the comment, the newest first."""
    statement = (
        select(Message)
        .where(Message.comment_id == comment_id, Message.spec_id == spec_id)
        .order_by(Message.created_at.desc(), Message.seq.desc())
        .execution_options(populate_existing=True)
    )
    return (await session.scalars(statement)).all()


async def replace_message(session: AsyncSession, message_id: uuid.UUID, content: str) -> bool:
    """Another text for one that was not sent yet. False when it was sent meanwhile."""
    return await _change_queued(session, message_id, content=content)


async def withdraw_message(session: AsyncSession, message_id: uuid.UUID) -> bool:
    """Take one back that was not sent yet. False when it was sent meanwhile."""
    return await _change_queued(session, message_id, state=MessageState.CANCELLED)


async def _change_queued(session: AsyncSession, message_id: uuid.UUID, **values: object) -> bool:
    statement = (
        update(Message)
        .where(Message.id == message_id, Message.state == MessageState.QUEUED)
        .values(**values)
        .returning(Message.id)
        .execution_options(synchronize_session=False)
    )
    return (await session.execute(statement)).scalar_one_or_none() is not None


# ---------------------------------------------------------------- what the sandbox sees


async def list_messages(
    session: AsyncSession, sandbox_id: SandboxId, after: int, limit: int, *, lock: bool = False
) -> Sequence[Message]:
    """What the agent may see with a number above `after`, in order; with `lock` nobody changes it until the transaction
    ends.
    """
    statement = (
        select(Message)
        .where(Message.sandbox_id == sandbox_id, Message.seq > after, Message.state.in_(_SHOWN))
        .order_by(Message.seq)
        .limit(limit)
        .execution_options(populate_existing=True)
    )
    return (await session.scalars(statement.with_for_update() if lock else statement)).all()


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


async def find_highest_seq_if_live(session: AsyncSession, sandbox_id: SandboxId) -> int | None:
    """0 when it has no messages; None when it has ended or does not exist."""
    highest = select(func.max(Message.seq)).where(Message.sandbox_id == Sandbox.id).scalar_subquery()
    found: int | None = await session.scalar(
        select(func.coalesce(highest, 0)).where(Sandbox.id == sandbox_id, Sandbox.state.in_(SANDBOX_LIVE))
    )
    return found


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
