"""Reviews and inline comments: who speaks, which commands, and into which batch the words go.

What they say is read from GitHub when the batch is handed over (`worker.review_batch`), so deliveries in any order and
repeated, edits and deletions before that need nothing more than a note here.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from app.db import reviews, specs
from app.db.comments import digest_of
from app.db.effects import count_effects_since, record_reaction
from app.db.models import Spec
from app.db.reviews import COMMENT, REVIEW, UNHEARD, HeardWord
from app.domain.commands import Comment, fresh_commands, words_of
from app.domain.errors import Gone, RetryAt
from app.domain.ids import EffectId, UserId
from app.domain.ports import User
from app.domain.replies import CONFUSED, THUMBS_UP
from app.domain.review_words import stands_alone
from app.domain.states import DeliveryState
from app.domain.triggers import CommentFacts, Happening, Reviewed, moment_of
from app.domain.trust import CONFUSED_AT_MOST, CONFUSED_WITHIN
from worker.intake.addressed import owe_help, owe_reply, repo_of
from worker.intake.base import find_bases
from worker.intake.commands import Asked, obey_all
from worker.intake.parse import parse
from worker.intake.permission import Permissions
from worker.intake.threads import look_where_opened_again, note_thread
from worker.intake.who import asks_us
from worker.parts import Parts
from worker.verdict import Verdict

_EDITS = frozenset({"edited", "review_edited"})


@dataclass(frozen=True)
class Reading:
    """One event about a review on its way. `heard` is what was made of the same words before."""

    parts: Parts
    happening: Happening
    change: str
    words: CommentFacts
    kind: str
    spec: Spec
    heard: HeardWord | None

    @property
    def repo(self) -> tuple[int, int]:
        return self.spec.installation_id, self.spec.repo_id

    @property
    def key(self) -> tuple[int, str, int]:
        return self.spec.repo_id, self.kind, self.words.comment_id

    @property
    def sha(self) -> str:
        return digest_of(self.words.body)


async def hear_review(
    parts: Parts, permissions: Permissions, happening: Happening, intent: Reviewed
) -> Verdict:
    """Everything that an event about a review asks for, in one verdict."""
    spec = await _find_spec(parts, happening)
    if spec is None:
        return Verdict("review", "no work of ours here", DeliveryState.IGNORED)
    if intent.change in {"resolved", "unresolved"}:
        return await note_thread(parts, permissions, happening, spec)
    reading = await _read(parts, happening, intent, spec)
    if intent.change == "deleted":
        return _note_deleted(reading)
    if reading.heard is not None and _is_old(reading, reading.heard):
        return Verdict("review", "heard before", DeliveryState.IGNORED)
    words = reading.words
    author = User(UserId(words.author_id or 0), words.author_login, words.author_type)
    parsed = await parse(words.body)
    if not await permissions.may_write(repo_of(happening), author):
        return _refuse(reading, parsed, (await parts.identity()).slug.lower())
    return _act(reading, parsed, await find_bases(parts.github, repo_of(happening), parsed.commands))


async def _find_spec(parts: Parts, happening: Happening) -> Spec | None:
    repo_id = repo_of(happening).repo_id
    async with parts.db.read() as session:
        spec = await specs.find_spec_spoken_of(session, repo_id, happening.pull_number or 0)
        live = await specs.find_live_spec(session, repo_id, spec.issue_number) if spec else None
    same_pull = live is not None and spec is not None and live.pull_number == spec.pull_number
    return live if same_pull else spec


async def _read(parts: Parts, happening: Happening, intent: Reviewed, spec: Spec) -> Reading:
    words = happening.comment
    if words is None:
        raise Gone("no words in the payload")
    kind = REVIEW if intent.change in {"submitted", "review_edited"} else COMMENT
    async with parts.db.read() as session:
        heard = await reviews.find_word(session, spec.repo_id, kind, words.comment_id)
    return Reading(parts, happening, intent.change, words, kind, spec, heard)


def _is_old(reading: Reading, heard: HeardWord) -> bool:
    """Deliveries come twice and in any order."""
    if heard.body_sha == UNHEARD and not heard.deleted:
        return False
    if heard.deleted or reading.change in {"submitted", "created"} or heard.body_sha == reading.sha:
        return True
    edited_at = moment_of(reading.words.edited_at)
    return edited_at is not None and heard.edited_at is not None and edited_at < heard.edited_at


# ---------------------------------------------------------------- who has a say


def _act(reading: Reading, parsed: Comment, bases: frozenset[str]) -> Verdict:
    earlier = reading.heard.commands if reading.heard else ()
    fresh = fresh_commands(parsed.commands, earlier)
    verdict = Verdict("command" if fresh else "review")

    async def write(session: AsyncSession) -> None:
        now, words = reading.parts.clock(), reading.words
        # Writing to the row first: whoever records a sandbox does so too, and one sees the other's.
        await specs.record_fact(session, reading.spec.id, now)
        spec = await specs.find_spec(session, reading.spec.id)
        if spec is None:
            return
        await _unless_heard_meanwhile(reading, session)
        verdict.spec_ids.append(spec.id)
        asked = Asked(session, spec, words.author_id or 0, words.author_login, now, bases=bases)
        await obey_all(asked, fresh, parsed.left_out)
        batch_id = await _place(reading, asked, verdict, bool(parsed.text))
        heard = HeardWord(
            moment_of(words.edited_at), reading.sha, (*earlier, *map(words_of, fresh)), batch_id=batch_id
        )
        review_id = reading.happening.review_id or 0
        await reviews.record_word(session, reading.key, review_id, heard, now)
        await _answer(reading, asked, verdict, len(earlier) + len(fresh))

    verdict.writes.append(write)
    return verdict


async def _unless_heard_meanwhile(reading: Reading, session: AsyncSession) -> None:
    now = await reviews.find_word(session, *reading.key)
    if now != reading.heard:
        raise RetryAt("another word of the same comment came meanwhile", reading.parts.clock())


async def _place(reading: Reading, asked: Asked, verdict: Verdict, says: bool) -> uuid.UUID | None:
    """The batch that the words belong to; for words of a batch that has become a message, another look at it. `says`:
    whether there are any beside commands.
    """
    heard, happening = reading.heard, reading.happening
    batch_id = heard.batch_id if heard is not None else None
    if batch_id is None:
        if reading.kind == COMMENT and not says:
            return None
        alone = reading.kind == REVIEW and stands_alone(happening.review_state, reading.words.body)
        new = reviews.NewBatch(happening.pull_number or 0, asked.author_id, asked.login, asked.now)
        batch_id, effect = await reviews.join_batch(
            asked.session, asked.spec, happening.review_id or 0, new, alone=alone
        )
        verdict.effect_ids += [effect] if effect and alone else []
    if reading.change in _EDITS:
        changed = (reading.kind, reading.words.comment_id)
        effect = await reviews.owe_another_look(asked.session, batch_id, changed, asked.now)
        verdict.effect_ids += [effect] if effect else []
        await look_where_opened_again(asked.session, happening, verdict, asked.now)
    return batch_id


async def _answer(reading: Reading, asked: Asked, verdict: Verdict, part: int) -> None:
    """One reply to all commands in the words, or a 👍 that says enough."""
    verdict.rings += asked.rings
    if asked.unknown:
        await owe_help(reading.parts, verdict, _on_issue(reading), asked.unknown[0])(asked.session)
    if asked.replies:
        tail, text = (
            f"{reading.kind}{reading.words.comment_id}:{part}",
            "\n\n".join(dict.fromkeys(asked.replies)),
        )
        await owe_reply(reading.parts, verdict, _on_issue(reading), tail, text)(asked.session)
    elif asked.obeyed:
        effect = await _owe_reaction(reading, asked.session, THUMBS_UP, None)
        verdict.effect_ids += [effect] if effect else []


def _on_issue(reading: Reading) -> Happening:
    """The same event, with the pull request as the place that a reply is written to."""
    return Happening(
        reading.happening.event, reading.happening.action, installation_id=reading.happening.installation_id,
        repo=reading.happening.repo, issue_number=reading.happening.pull_number,
    )  # fmt: skip


async def _owe_reaction(
    reading: Reading, session: AsyncSession, content: str, key: str | None
) -> EffectId | None:
    # A comment has a number that REST knows; a review's body takes reactions through GraphQL alone.
    target = reading.words.comment_id if reading.kind == COMMENT else reading.happening.review_node_id
    kind = reviews.REACTIONS[reading.kind]
    now = reading.parts.clock()
    return await record_reaction(session, reading.repo, target, content, now, kind=kind, key=key)


# ---------------------------------------------------------------- who has none


def _refuse(reading: Reading, parsed: Comment, slug: str) -> Verdict:
    """😕 on a command or a mention of ours, a few times an hour; else silence."""
    verdict = Verdict("review", "refused: no write access", DeliveryState.IGNORED)
    if not asks_us(parsed, slug):
        return verdict
    prefix = f"{reading.spec.repo_id}:confused:{reading.happening.pull_number}:"

    async def write(session: AsyncSession) -> None:
        since = reading.parts.clock() - CONFUSED_WITHIN
        if await count_effects_since(session, prefix, since) < CONFUSED_AT_MOST:
            key = f"{prefix}{reading.kind}:{reading.words.comment_id}"
            effect = await _owe_reaction(reading, session, CONFUSED, key)
            verdict.effect_ids += [effect] if effect else []

    verdict.writes.append(write)
    return verdict


# ---------------------------------------------------------------- what is taken back


def _note_deleted(reading: Reading) -> Verdict:
    """Whoever deleted it: what was not sent yet is not said."""
    verdict = Verdict("review", "withdrawn")
    heard = reading.heard

    async def write(session: AsyncSession) -> None:
        now, review_id = reading.parts.clock(), reading.happening.review_id or 0
        await _unless_heard_meanwhile(reading, session)
        batch_id = heard.batch_id if heard else None
        commands = heard.commands if heard else ()
        gone = HeardWord(moment_of(reading.words.edited_at), reading.sha, commands, True, batch_id)
        await reviews.record_word(session, reading.key, review_id, gone, now)
        if batch_id is not None:
            effect = await reviews.owe_another_look(session, batch_id, None, now)
            verdict.effect_ids += [effect] if effect else []
        await look_where_opened_again(session, reading.happening, verdict, now)

    verdict.writes.append(write)
    return verdict
