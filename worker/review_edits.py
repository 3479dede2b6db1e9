"""Words of a review that their author changed after its message was sent: a correction, or a follow-up where the agent
had not been given them.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from app.db import reviews, specs
from app.db.again import renew_batch
from app.db.effects import record_reaction
from app.db.messages import NewMessage
from app.db.models import Message, ReviewBatch, Spec
from app.db.review_scope import has_thread, is_word_of, move_word, record_unheard
from app.db.unresolved import find_unsent_batch
from app.domain.replies import CONFUSED
from app.domain.review import place_of_remark, place_of_review, render_correction, words_for_agent
from app.domain.review_words import PullWords
from sandbox_payload.wire import MessageType
from worker.parts import Parts
from worker.review_said import has_said_enough, is_over, queue


@dataclass(frozen=True)
class Edited:
    """Words that their author changed. `word`: kind and number; `root_id`: their thread, None for a review's own;
    `body`: the newest text; `place`: where they stand; `node_id`: the review's, for its own; `beside`: all words of
    the same review, `review_id`.
    """

    word: tuple[str, int]
    root_id: int | None
    body: str
    place: str
    node_id: str = ""
    review_id: int | None = None
    beside: tuple[tuple[str, int], ...] = ()


def find_edited(words: PullWords, changed: tuple[str, int], pull_number: int) -> Edited | None:
    """None when they are gone, or nothing is to be done about them any more."""
    kind, number = changed
    if kind == reviews.REVIEW:
        mine = next((one for one in words.reviews if one.review_id == number and not one.altered), None)
        if mine is None:
            return None
        place = place_of_review(pull_number, number)
        beside = _words_of(words, number)
        return Edited((kind, number), None, mine.body, place, mine.node_id, number, beside)
    found = next((one for one in words.remarks if one.comment_id == number), None)
    if found is None or found.altered or found.root_id in words.resolved:
        return None
    place, beside = place_of_remark(pull_number, number), _words_of(words, found.review_id)
    return Edited((kind, number), found.root_id, found.body, place, "", found.review_id, beside)


def _words_of(words: PullWords, review_id: int | None) -> tuple[tuple[str, int], ...]:
    """Kind and number of a review's text and inline comments."""
    return (
        *((reviews.REVIEW, one.review_id) for one in words.reviews if one.review_id == review_id),
        *((reviews.COMMENT, one.comment_id) for one in words.remarks if one.review_id == review_id),
    )


async def say_edited(
    parts: Parts, session: AsyncSession, batch: ReviewBatch, edited: Edited, *, is_said: bool
) -> Message | None:
    """The message that is new, if one is. `is_said`: the batch's own message holds those words as they are now. Again
    changes nothing. The caller holds the spec's row.
    """
    now = parts.clock()
    spec = await specs.find_spec(session, batch.spec_id)
    if spec is None or not words_for_agent(edited.body):
        return None
    if not await is_word_of(session, spec, batch, edited.word):
        return None
    if not await _is_known(session, batch, edited):
        if edited.root_id is not None and await find_unsent_batch(session, spec.repo_id, edited.root_id):
            return None  # the thread was opened again: it is given with that, as it then reads
        if edited.review_id is not None:
            await record_unheard(session, spec, batch, edited.review_id, edited.beside)
        await move_word(session, spec, batch, edited.word, now)
        return None
    if batch.failed_at is not None:
        # It waits for a retry, which would say these words as well.
        await renew_batch(session, spec, batch.id, now)
        return None
    correction = await _find_correction(session, batch, edited, is_said)
    if correction is None or await is_over(parts, session, spec, batch):
        return None
    if await has_said_enough(parts, session, spec, batch):
        await _refuse(session, spec, edited, now)
        return None
    return await queue(parts, session, spec, batch, correction)


async def _is_known(session: AsyncSession, batch: ReviewBatch, edited: Edited) -> bool:
    """Whether the agent has been told where those words stand."""
    if edited.root_id is None:
        return edited.node_id in batch.review_nodes
    return await has_thread(session, batch, edited.root_id)


async def _find_correction(
    session: AsyncSession, batch: ReviewBatch, edited: Edited, is_said: bool
) -> NewMessage | None:
    """None when the agent has heard these words last: asked for twice or changed back, the same is not said again."""
    correction = render_correction(edited.root_id, words_for_agent(edited.body))
    heading = correction.partition("\n")[0]
    said = await reviews.list_corrections(session, batch, heading, edited.place)
    if said[-1].content == correction if said else is_said:
        return None
    return NewMessage(
        MessageType.USER_MESSAGE.value, correction, author_id=batch.author_id, author_login=batch.author_login,
        id=uuid.uuid5(batch.id, f"{edited.place}:{len(said)}:{correction}"), place=edited.place,
    )  # fmt: skip


async def _refuse(session: AsyncSession, spec: Spec, edited: Edited, now: datetime) -> None:
    kind, number = edited.word
    repo, target = (spec.installation_id, spec.repo_id), edited.node_id or number
    await record_reaction(session, repo, target, CONFUSED, now, kind=reviews.REACTIONS[kind])
