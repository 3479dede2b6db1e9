"""A person's words become a message to the agent: now, to the next sandbox, or to work that they take up again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from app.db.messages import (
    NewMessage,
    list_messages_of_comment,
    record_message_of_spec,
    replace_message,
    withdraw_message,
)
from app.db.models import Message
from app.db.retries import record_retry
from app.domain.errors import RetryAt
from app.domain.replies import CORRECTION, RetryRefusal
from app.domain.states import MessageState, SpecState
from sandbox_payload.wire import MessageType
from worker.intake.commands import Asked


async def deliver(asked: Asked, comment_id: int, text: str, place: str, *, new: bool) -> bool:
    """Queue `text`, or change what was queued of the same comment. False when nobody will hear it: the spec is
    completed. `place`: the comment's, as in the table. `new`: nothing was made of the comment before. Raises RetryAt
    while failed work is still being told as such.
    """
    if asked.spec.state is SpecState.COMPLETED:
        return not text
    earlier = () if new else await list_messages_of_comment(asked.session, asked.spec.id, comment_id)
    content = await _changed(asked, earlier, text) if earlier else text
    if not content:
        return True
    message = NewMessage(
        MessageType.USER_MESSAGE.value,
        content,
        author_id=asked.author_id,
        comment_id=comment_id,
        author_login=asked.login,
        place=place,
    )
    row = await record_message_of_spec(asked.session, asked.spec.id, message, asked.now, held=asked.stops)
    if row.sandbox_id is not None:
        asked.rings.append(row.sandbox_id)
    if asked.spec.state is SpecState.FAILED and not (asked.stops or asked.by_bot):
        await _take_up(asked)
    return True


async def _changed(asked: Asked, earlier: Sequence[Message], text: str) -> str:
    """What is still to be said after the comment's earlier texts, the newest first; '' when nothing is."""
    newest, correction = earlier[0], CORRECTION.format(text=text)
    if newest.state is MessageState.QUEUED:
        if not text:
            done = await withdraw_message(asked.session, newest.id)
        else:
            content = correction if any(map(_is_known, earlier[1:])) else text
            done = await replace_message(asked.session, newest.id, content)
        if done:
            return ""
    elif not any(map(_is_known, earlier)):
        return text
    return "" if not text or newest.content in {text, correction} else correction


def _is_known(message: Message) -> bool:
    """It left here, so the agent may have it."""
    return message.sent_at is not None


async def _take_up(asked: Asked) -> None:
    """Words on failed work are its answer. On cancelled work they wait: somebody had ended it on purpose."""
    refused = await record_retry(asked.session, asked.spec.id, asked.now)
    if refused is not None and refused.reason is RetryRefusal.ENDING:
        raise RetryAt("its end is still being told", asked.now + timedelta(seconds=1))
    await asked.reload()
