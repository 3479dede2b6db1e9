"""Comments: who speaks, is it news, and what does it ask for?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from app.db import specs
from app.db.comments import Heard, digest_of, find_heard, record_heard
from app.db.effects import count_effects_since, record_reaction
from app.db.messages import list_messages_of_comment, withdraw_message
from app.db.models import Spec
from app.domain.commands import Comment, Help, Stop, fresh_commands, words_of
from app.domain.errors import Gone, RetryAt
from app.domain.ids import UserId
from app.domain.markers import notice_marker
from app.domain.ports import User
from app.domain.replies import (
    CONFUSED,
    EYES,
    HELD,
    NO_WORK,
    PAUSED_HEARD,
    SAID_ENOUGH,
    THUMBS_UP,
    render_ended,
    render_help,
)
from app.domain.sanitize import escape_markdown
from app.domain.states import SPEC_LIVE, DeliveryState, SpecState
from app.domain.triggers import A_BOT, CommentFacts, Happening, Said, moment_of
from app.domain.trust import CONFUSED_AT_MOST, CONFUSED_WITHIN, SAID_AT_MOST
from worker.intake.addressed import owe_help, owe_notice, owe_reply, repo_of
from worker.intake.base import find_bases
from worker.intake.commands import Asked, obey_all
from worker.intake.heard_before import SAME, follows_unheard_label, said_before
from worker.intake.message import deliver
from worker.intake.parse import parse
from worker.intake.permission import Permissions
from worker.intake.who import asks_us, bot_is_heard, has_said_enough, is_message
from worker.parts import Parts
from worker.verdict import Verdict, Write

LATER_WORK = "for work whose label was not heard of yet"


@dataclass(frozen=True)
class Hearing:
    """One comment event on its way. `heard` is what was made of the comment before."""

    parts: Parts
    happening: Happening
    comment: CommentFacts
    spec: Spec | None
    heard: Heard | None
    by_bot: bool = False

    @property
    def repo_key(self) -> tuple[int, int]:
        repo = repo_of(self.happening)
        return repo.installation_id, repo.repo_id

    @property
    def number(self) -> int:
        return self.happening.issue_number or 0

    @property
    def place(self) -> str:
        """Of the comment, as the end of an address in the repository."""
        kind = "pull" if self.happening.issue_is_pull else "issues"
        return f"{kind}/{self.number}#issuecomment-{self.comment.comment_id}"


async def hear(parts: Parts, permissions: Permissions, happening: Happening, said: Said) -> Verdict:
    """Everything that a comment asks for, in one verdict."""
    hearing = replace(await _find(parts, happening), by_bot=said.by_bot)
    verdict = await _judge(parts, permissions, hearing, said)
    if hearing.spec is None or verdict.reason == LATER_WORK:
        verdict.writes.insert(0, _unless_work_began(hearing))
    return verdict


async def _judge(parts: Parts, permissions: Permissions, hearing: Hearing, said: Said) -> Verdict:
    happening, comment = hearing.happening, hearing.comment
    if said.change == "deleted":
        return _withdraw(hearing)
    old = A_BOT.reason if said.by_bot and not bot_is_heard(hearing.spec, hearing.comment) else ""
    old = old or await _why_old(hearing, said)
    if old:
        return Verdict("message", old, DeliveryState.IGNORED)
    parsed = await parse(comment.body)
    early = said_before(hearing.spec, comment)
    if early:
        parsed = replace(parsed, commands=())  # they were about no work of ours, or an earlier one
    if early > SAME or (early and not parsed.text):
        return Verdict("message", "said before the label", DeliveryState.IGNORED)
    if hearing.spec is None and not parsed.commands and not parsed.mentions:
        return Verdict("message", "no work of ours here", DeliveryState.IGNORED)
    author = User(UserId(comment.author_id or 0), comment.author_login, comment.author_type)
    if said.by_bot:
        parsed = replace(parsed, commands=())  # it may speak to the agent, and to nobody else
    elif not await permissions.may_write(repo_of(happening), author):
        return await _refuse(hearing, parsed)
    if hearing.spec is None:
        return _no_work(hearing, parsed) if parsed.commands else _nothing()
    if hearing.heard is None and not is_message(hearing.spec, parsed, (await parts.identity()).slug):
        return Verdict("message", "does not mention the App", DeliveryState.IGNORED)
    return await _take(hearing, hearing.spec, parsed)


async def _take(hearing: Hearing, spec: Spec, parsed: Comment) -> Verdict:
    """As meant for that work; or, on an issue that was labeled anew, as something to be taken in when that is heard."""
    repo, on_issue = repo_of(hearing.happening), not hearing.happening.issue_is_pull
    if on_issue and await follows_unheard_label(hearing.parts, repo, spec, hearing.comment):
        return Verdict("message", LATER_WORK, DeliveryState.IGNORED)
    bases = await find_bases(hearing.parts.github, repo, parsed.commands)
    return _act(hearing, spec.id, parsed, bases)


def _nothing() -> Verdict:
    return Verdict("message", "asks for nothing", DeliveryState.IGNORED)


async def _find(parts: Parts, happening: Happening) -> Hearing:
    if happening.comment is None:
        raise Gone("no comment in the payload")
    async with parts.db.read() as session:
        spec = await _find_spec(session, happening)
        heard = await find_heard(session, repo_of(happening).repo_id, happening.comment.comment_id)
    return Hearing(parts, happening, happening.comment, spec, heard)


async def _find_spec(session: AsyncSession, happening: Happening) -> Spec | None:
    repo_id, number = repo_of(happening).repo_id, happening.issue_number or 0
    if not happening.issue_is_pull:
        return await specs.find_newest_spec(session, repo_id, number)
    spec = await specs.find_spec_spoken_of(session, repo_id, number)
    live = await specs.find_live_spec(session, repo_id, spec.issue_number) if spec else None
    return live or spec


def _unless_work_began(hearing: Hearing) -> Write:
    """Raises RetryAt when the work that there was not has begun meanwhile: then the comment is looked at anew."""
    known = hearing.spec.id if hearing.spec is not None else None

    async def write(session: AsyncSession) -> None:
        spec = await _find_spec(session, hearing.happening)
        if spec is not None and spec.id != known:
            raise RetryAt("work has begun meanwhile", hearing.parts.clock())

    return write


async def _why_old(hearing: Hearing, said: Said) -> str:
    """Why the event tells nothing new: deliveries come twice and in any order. '' when it does."""
    heard, comment = hearing.heard, hearing.comment
    if heard is None:
        return ""
    if heard.deleted:
        return "the comment was deleted"
    if said.change == "created" or heard.body_sha == digest_of(comment.body):
        return "heard before"
    edited_at = moment_of(comment.edited_at)
    if edited_at is None or heard.edited_at is None or edited_at > heard.edited_at:
        return ""
    if edited_at == heard.edited_at and await _is_live_text(hearing):
        return ""  # twice within GitHub's one second
    return "a later text was heard"


async def _is_live_text(hearing: Hearing) -> bool:
    comment = hearing.comment
    try:
        live = await hearing.parts.github.fetch_comment(repo_of(hearing.happening), comment.comment_id)
    except Gone:
        return False
    return live.body == comment.body


# ---------------------------------------------------------------- who has no say


async def _refuse(hearing: Hearing, parsed: Comment) -> Verdict:
    """😕 on a command or a mention of ours, a few times an hour; else silence."""
    verdict = Verdict("message", "refused: no write access", DeliveryState.IGNORED)
    if not asks_us(parsed, (await hearing.parts.identity()).slug.lower()):
        return verdict
    key = f"{hearing.repo_key[1]}:confused:{hearing.number}:"

    async def write(session: AsyncSession) -> None:
        now = hearing.parts.clock()
        if await count_effects_since(session, key, now - CONFUSED_WITHIN) < CONFUSED_AT_MOST:
            comment_id = hearing.comment.comment_id
            effect = await record_reaction(
                session, hearing.repo_key, comment_id, CONFUSED, now, key=f"{key}{comment_id}"
            )
            verdict.effect_ids += [effect] if effect else []

    verdict.writes.append(write)
    return verdict


def _no_work(hearing: Hearing, parsed: Comment) -> Verdict:
    verdict = Verdict("command", "no work of ours here", DeliveryState.IGNORED)
    no_work = NO_WORK.format(label=hearing.parts.labels.agent)
    text = render_help() if any(isinstance(one, Help) for one in parsed.commands) else no_work
    verdict.writes.append(_reply(hearing, verdict, text, "0"))
    return verdict


# ---------------------------------------------------------------- who has


def _act(hearing: Hearing, spec_id: str, parsed: Comment, bases: frozenset[str]) -> Verdict:
    earlier = hearing.heard.commands if hearing.heard else ()
    fresh = fresh_commands(parsed.commands, earlier)
    verdict = Verdict("command" if fresh else "message")
    text = parsed.text

    async def write(session: AsyncSession) -> None:
        now, comment = hearing.parts.clock(), hearing.comment
        # Writing to the row first: whoever records a sandbox does so too, and one sees the other's.
        spec = await specs.record_fact_of(session, spec_id, now)
        await _record_heard(hearing, session, (*earlier, *map(words_of, fresh)))
        if spec is None:
            return
        verdict.spec_ids.append(spec_id)
        asked = Asked(session, spec, comment.author_id or 0, comment.author_login, now, bases=bases)
        await obey_all(asked, fresh, parsed.left_out)
        asked.by_bot = hearing.by_bot
        # One that was followed before is in force for as long as the work has not ended.
        ending = spec.state in SPEC_LIVE and spec.cancel_asked_at is not None
        stopping = parsed.commands if ending else fresh
        asked.stops = any(isinstance(command, Stop) for command in stopping)
        if text or hearing.heard:
            await _say(hearing, asked, verdict, text)
        await _answer(hearing, asked, verdict, f"{len(earlier) + len(fresh)}")

    verdict.writes.append(write)
    return verdict


async def _say(hearing: Hearing, asked: Asked, verdict: Verdict, text: str) -> None:
    comment_id, ended = hearing.comment.comment_id, asked.spec.state
    told = _moment(asked.spec.id, asked.spec.ended_at)
    if text and await has_said_enough(asked.session, asked):
        await _leave_out(hearing, asked, verdict)
        return
    heard = await deliver(asked, comment_id, text, hearing.place, new=hearing.heard is None)
    if heard and text:
        effect = await record_reaction(asked.session, hearing.repo_key, comment_id, EYES, asked.now)
        verdict.effect_ids += [effect] if effect else []
    if text and asked.stops and ended is not SpecState.COMPLETED:
        await _notice(hearing, verdict, f"held:{comment_id}", HELD)(asked.session)
    elif text and asked.spec.pause_asked_at is not None and ended in SPEC_LIVE:
        await _notice(
            hearing, verdict, f"paused:{_moment(asked.spec.id, asked.spec.pause_asked_at)}", PAUSED_HEARD
        )(asked.session)
    elif text and ended in {SpecState.COMPLETED, SpecState.CANCELLED}:
        # Said once for each end, however much is said there afterwards.
        body = render_ended(ended, label_gone=asked.spec.label_gone, label=hearing.parts.labels.agent)
        await _notice(hearing, verdict, f"ended:{told}", body)(asked.session)


async def _leave_out(hearing: Hearing, asked: Asked, verdict: Verdict) -> None:
    """😕 on each comment that is too many, and one comment an hour that says why."""
    effect = await record_reaction(
        asked.session, hearing.repo_key, hearing.comment.comment_id, CONFUSED, asked.now
    )
    verdict.effect_ids += [effect] if effect else []
    key = f"enough:{asked.author_id}:{hearing.number}:{int(asked.now.timestamp()) // 3600}"
    text = SAID_ENOUGH.format(login=escape_markdown(asked.login), count=SAID_AT_MOST)
    await _notice(hearing, verdict, key, text)(asked.session)


def _moment(spec_id: str, at: datetime | None) -> str:
    return f"{spec_id}:{int(at.timestamp()) if at else 0}"


async def _answer(hearing: Hearing, asked: Asked, verdict: Verdict, part: str) -> None:
    """One reply to all of the comment's commands, or a 👍 that says enough."""
    verdict.rings += asked.rings
    if asked.unknown:
        await owe_help(hearing.parts, verdict, hearing.happening, asked.unknown[0])(asked.session)
    if asked.replies:
        await _reply(hearing, verdict, "\n\n".join(dict.fromkeys(asked.replies)), part)(asked.session)
    elif asked.obeyed:
        effect = await record_reaction(
            asked.session, hearing.repo_key, hearing.comment.comment_id, THUMBS_UP, asked.now
        )
        verdict.effect_ids += [effect] if effect else []


def _notice(hearing: Hearing, verdict: Verdict, key: str, text: str) -> Write:
    body = f"{notice_marker(key)}\n{text}"
    return owe_notice(hearing.parts, verdict, hearing.happening, key, body)


def _reply(hearing: Hearing, verdict: Verdict, text: str, part: str) -> Write:
    return owe_reply(hearing.parts, verdict, hearing.happening, f"{hearing.comment.comment_id}:{part}", text)


def _withdraw(hearing: Hearing) -> Verdict:
    """Whoever deleted it: what was not sent yet is not said."""
    if hearing.spec is None or (hearing.heard is not None and hearing.heard.deleted):
        return Verdict("message", "nothing to withdraw", DeliveryState.IGNORED)
    spec_id, verdict = hearing.spec.id, Verdict("message", "withdrawn")

    async def write(session: AsyncSession) -> None:
        commands = hearing.heard.commands if hearing.heard else ()
        await _record_heard(hearing, session, commands, deleted=True)
        for message in await list_messages_of_comment(session, spec_id, hearing.comment.comment_id):
            await withdraw_message(session, message.id)

    verdict.writes.append(write)
    return verdict


async def _record_heard(
    hearing: Hearing, session: AsyncSession, commands: tuple[str, ...], *, deleted: bool = False
) -> None:
    """Raises RetryAt when another worker was told of the same comment meanwhile: then it is looked at anew."""
    comment, now = hearing.comment, hearing.parts.clock()
    repo_id = repo_of(hearing.happening).repo_id
    new = Heard(moment_of(comment.edited_at), digest_of(comment.body), commands, deleted)
    if not await record_heard(
        session, repo_id, comment.comment_id, hearing.number, new, now, before=hearing.heard
    ):
        raise RetryAt("another word of the same comment came meanwhile", now)
