"""What each command does. Everything happens in the one commit that settles the comment's delivery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncSession

from app.db import specs
from app.db.approvals import record_approval
from app.db.messages import NewMessage, list_live_sandboxes_of, record_message
from app.db.models import Spec
from app.db.pauses import record_pause, record_resume
from app.db.retries import record_retry
from app.domain.commands import (
    MAX_COMMANDS,
    Approve,
    Base,
    Command,
    Help,
    NoHash,
    Pause,
    Resume,
    Retry,
    Status,
    Stop,
    Unknown,
)
from app.domain.errors import RetryAt
from app.domain.ids import SandboxId
from app.domain.replies import (
    INTERRUPT,
    NO_HASH,
    NOT_PAUSED,
    NOTHING_TO_PAUSE,
    NOTHING_TO_STOP,
    STOPPED_HERE,
    TOO_MANY,
    Approval,
    Facts,
    RetryRefusal,
    render_approval,
    render_help,
    render_retry_refused,
    render_status_reply,
    render_unknown,
)
from app.domain.states import SPEC_LIVE
from sandbox_payload.wire import MessageType
from worker.intake.base import set_base


@dataclass
class Asked:
    """One comment that is acted on. `spec` is as locked in `session`; the lists say what is to follow its commit."""

    session: AsyncSession
    spec: Spec
    author_id: int
    login: str
    now: datetime
    replies: list[str] = field(default_factory=list)
    rings: list[str] = field(default_factory=list)
    """Sandboxes whose poll is to be woken."""
    bases: frozenset[str] = frozenset()
    """Of the branches that the comment names as a base, those that exist."""
    obeyed: bool = False
    """A command was carried out, which a 👍 says."""
    unknown: list[str] = field(default_factory=list)
    """Answers to commands that there are not, of which people get one an hour."""
    stops: bool = False
    """Among the commands is one to stop: the words beside it wait for a retry."""
    stopped: bool = False
    """One of its commands has asked for the end, so that can't be waited for here."""
    by_bot: bool = False
    """A bot speaks: work that failed waits for a person, or the two of them would go round and round."""

    async def reload(self) -> None:
        await self.session.refresh(self.spec)


def facts_of(spec: Spec) -> Facts:
    return Facts(
        state=spec.state,
        ending=spec.cancel_asked_at is not None and spec.state in SPEC_LIVE,
        status_url=spec.status_comment_url or "",
        plan_url=spec.plan_comment_url or "",
        plan_hash=spec.plan_shown_hash or "",
        pull_number=spec.pull_number,
        pausing=spec.pause_asked_at is not None and spec.state in SPEC_LIVE,
        waits_for=spec.waits_for,
        label_gone=spec.label_gone,
    )


async def obey_all(asked: Asked, commands: Sequence[Command], left_out: int) -> None:
    """Carry out what a comment has newly asked for; `left_out`: how many commands it has beyond those that are read."""
    for command in commands:
        await obey(asked, command)
    if commands and left_out:
        asked.replies.append(TOO_MANY.format(most=MAX_COMMANDS, left=left_out))


async def obey(asked: Asked, command: Command) -> None:
    """Carry out one command, or say why not. Raises RetryAt when its time comes in a moment."""
    match command:
        case Approve(plan_hash):
            await _approve(asked, plan_hash)
        case Stop(now):
            await _stop(asked, now)
        case Retry(what):
            await _retry(asked, what)
        case Status():
            asked.replies.append(render_status_reply(facts_of(asked.spec)))
        case Help():
            asked.replies.append(render_help())
        case Unknown(line):
            asked.unknown.append(render_unknown(line))
        case NoHash(word):
            asked.replies.append(NO_HASH.format(word=word))
        case Pause() | Resume():
            await _rest(asked, command)
        case Base(branch):
            asked.replies.append(await set_base(asked.session, asked.spec, branch, asked.bases, asked.now))
    await asked.reload()


async def _approve(asked: Asked, plan_hash: str | None) -> None:
    approval = await record_approval(asked.session, asked.spec.id, plan_hash, asked.login, asked.now)
    await asked.reload()
    if approval in {Approval.APPROVED, Approval.ALREADY}:
        asked.obeyed = True
    else:
        asked.replies.append(render_approval(approval, facts_of(asked.spec)))


async def _stop(asked: Asked, now: bool) -> None:
    """Asked for twice is obeyed twice: the second may be the impatient one."""
    if asked.spec.state not in SPEC_LIVE:
        asked.replies.append(NOTHING_TO_STOP.format(status=render_status_reply(facts_of(asked.spec))))
        return
    await specs.record_cancel(asked.session, asked.spec.id, "stopped", asked.now)
    asked.obeyed = asked.stopped = True
    if not now:
        return
    message = NewMessage(MessageType.INTERRUPT.value, INTERRUPT, asked.author_id, author_login=asked.login)
    for sandbox_id in await list_live_sandboxes_of(asked.session, asked.spec.id):
        if await record_message(asked.session, SandboxId(sandbox_id), message, asked.now) is not None:
            asked.rings.append(sandbox_id)


async def _rest(asked: Asked, command: Pause | Resume) -> None:
    if isinstance(command, Pause):
        done = await record_pause(asked.session, asked.spec.id, asked.login, asked.now)
        refusal = NOTHING_TO_PAUSE
    else:
        done, refusal = await record_resume(asked.session, asked.spec.id, asked.now), NOT_PAUSED
    if done:
        asked.obeyed = True
    else:
        asked.replies.append(refusal.format(status=render_status_reply(facts_of(asked.spec))))


async def _retry(asked: Asked, what: str | None) -> None:
    if asked.stopped:
        asked.replies.append(STOPPED_HERE)
        return
    refused = await record_retry(asked.session, asked.spec.id, asked.now, what)
    if refused is None:
        asked.obeyed = True
    elif refused.reason is RetryRefusal.ENDING:
        raise RetryAt("its end is still being told", asked.now + timedelta(seconds=1))
    else:
        asked.replies.append(render_retry_refused(refused))
