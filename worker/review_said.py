"""What a reviewer says is queued for an agent, as a comment's words are: people are told where it ends, rests or is more
than one person may say.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from app.db import specs
from app.db.effects import record_notice
from app.db.messages import NewMessage, count_said_since, record_message_of_spec
from app.db.models import Message, ReviewBatch, Spec
from app.db.retries import record_retry
from app.domain.errors import RetryAt
from app.domain.replies import HELD, PAUSED_HEARD, SAID_ENOUGH, RetryRefusal, render_ended
from app.domain.sanitize import escape_markdown
from app.domain.states import SPEC_LIVE, SpecState
from app.domain.trust import SAID_AT_MOST, SAID_WITHIN
from worker.parts import Parts


async def is_over(parts: Parts, session: AsyncSession, spec: Spec, batch: ReviewBatch) -> bool:
    """Whether nobody will hear it. An end is told once, under the key that comments use too."""
    if spec.state in {SpecState.COMPLETED, SpecState.CANCELLED}:
        text = render_ended(spec.state, label_gone=spec.label_gone, label=parts.labels.agent)
        await owe_notice(parts, session, batch, f"ended:{_moment(spec.id, spec.ended_at)}", text)
    return spec.state is SpecState.COMPLETED


async def has_said_enough(parts: Parts, session: AsyncSession, spec: Spec, batch: ReviewBatch) -> bool:
    """Whether the reviewer has said as much as one may within the hour, which is told once in it."""
    now = parts.clock()
    if await count_said_since(session, spec.repo_id, batch.author_id, now - SAID_WITHIN) < SAID_AT_MOST:
        return False
    text = SAID_ENOUGH.format(login=escape_markdown(batch.author_login), count=SAID_AT_MOST)
    hour = int(now.timestamp()) // 3600
    await owe_notice(parts, session, batch, f"enough:{batch.author_id}:{batch.pull_number}:{hour}", text)
    return True


async def queue(
    parts: Parts,
    session: AsyncSession,
    spec: Spec,
    batch: ReviewBatch,
    new: NewMessage,
    *,
    stops: bool = False,
) -> Message:
    """Words on failed work take it up again. Beside a command to stop (`stops`), heard of already or not, they wait for
    the next sandbox. Raises RetryAt while failed work is still being told as such.
    """
    now, live = parts.clock(), spec.state in SPEC_LIVE
    held = stops or (live and spec.cancel_asked_at is not None)
    if held and spec.state is not SpecState.CANCELLED:
        await owe_notice(parts, session, batch, f"held:{new.id}", HELD)
    elif live and spec.pause_asked_at is not None:
        key = f"paused:{_moment(spec.id, spec.pause_asked_at)}"
        await owe_notice(parts, session, batch, key, PAUSED_HEARD)
    message = await record_message_of_spec(session, spec.id, new, now, held=held)
    if spec.state is SpecState.FAILED and not held:
        refused = await record_retry(session, spec.id, now)
        if refused is not None and refused.reason is RetryRefusal.ENDING:
            raise RetryAt("its end is still being told", now + timedelta(seconds=1))
    return message


def _moment(spec_id: str, at: datetime | None) -> str:
    """As comments name it too, so that one of both is said once."""
    return f"{spec_id}:{int(at.timestamp()) if at else 0}"


async def owe_notice(parts: Parts, session: AsyncSession, batch: ReviewBatch, key: str, text: str) -> None:
    """One comment on the pull request for each key."""
    spec = await specs.find_spec(session, batch.spec_id)
    if spec is None:
        return
    repo = (spec.installation_id, spec.repo_id)
    await record_notice(session, repo, batch.pull_number, key, text, parts.clock())
