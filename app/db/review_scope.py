"""SQL of which words a batch is made of, and of words that leave theirs for another one."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from app.db.models import ReviewBatch, ReviewThread, ReviewWord, Spec
from app.db.reviews import COMMENT, REVIEW, UNHEARD, NewBatch, join_open_batch, list_review_ids
from app.db.unresolved import is_given
from app.domain.review_scope import Scope


async def find_scope(session: AsyncSession, batch_id: uuid.UUID) -> Scope:
    """Read again it is equal, unless words came or went that the batch would be made of."""
    review_ids = await list_review_ids(session, batch_id)
    here, there = aliased(ReviewWord), aliased(ReviewWord)
    shared = (
        select(here)
        .join(there, (there.repo_id == here.repo_id) & (there.review_id == here.review_id))
        .where(here.batch_id == batch_id, here.deleted.is_(False), there.batch_id != batch_id)
        .distinct()
    )
    own = (await session.scalars(shared.execution_options(populate_existing=True))).all()
    return Scope(
        frozenset(review_ids),
        frozenset(word.review_id for word in own),
        frozenset(word.word_id for word in own if word.kind == REVIEW),
        frozenset(word.word_id for word in own if word.kind == COMMENT),
    )


async def is_word_of(session: AsyncSession, spec: Spec, batch: ReviewBatch, word: tuple[str, int]) -> bool:
    """`word`: kind and number. Since somebody asked about it, it may have become another batch's."""
    row = await session.get(ReviewWord, (spec.repo_id, *word), populate_existing=True)
    return row is not None and row.batch_id == batch.id


async def has_thread(session: AsyncSession, batch: ReviewBatch, root_id: int) -> bool:
    """Whether an agent was given that thread with the batch, or is at it anyway."""
    thread = await session.get(ReviewThread, (batch.id, root_id))
    return thread is not None or await is_given(session, batch.spec_id, root_id)


async def record_unheard(
    session: AsyncSession, spec: Spec, batch: ReviewBatch, review_id: int, words: Collection[tuple[str, int]]
) -> None:
    """Of `words`, which stand in that review, those that no delivery has told of become the batch's own: it was made of
    the whole review, and once another batch has a part of that, it is made of what it knows. The caller holds the
    spec's row. Again changes nothing.
    """
    for kind, number in words:
        if await session.get(ReviewWord, (spec.repo_id, kind, number), populate_existing=True) is None:
            session.add(
                ReviewWord(
                    repo_id=spec.repo_id, kind=kind, word_id=number, review_id=review_id, batch_id=batch.id,
                    edited_at=None, body_sha=UNHEARD, commands=[], deleted=False, heard_at=batch.opened_at,
                )
            )  # fmt: skip
    await session.flush()


async def move_word(
    session: AsyncSession, spec: Spec, batch: ReviewBatch, word: tuple[str, int], now: datetime
) -> None:
    """Into a batch of its author's that is still to be read: a review's text at once, inline comments with others. The
    caller holds the spec's row.
    """
    kind, number = word
    like_it = NewBatch(batch.pull_number, batch.author_id, batch.author_login, opened_at=now)
    other, _ = await join_open_batch(session, spec, like_it, alone=kind == REVIEW)
    await session.execute(
        update(ReviewWord)
        .where(ReviewWord.repo_id == spec.repo_id, ReviewWord.kind == kind, ReviewWord.word_id == number)
        .values(batch_id=other)
        .execution_options(synchronize_session=False)
    )
