"""All SQL about reviews: what was heard of them, batches on their way to an agent, and what their threads are owed."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.effects import record_effect, record_reaction
from app.db.models import Effect, Message, ReviewBatch, ReviewThread, ReviewWord, Spec
from app.domain.ids import EffectId
from app.domain.replies import CONFUSED
from app.domain.review_answers import Untold, render_untold, untold_marker
from app.domain.review_words import BatchThread, Composed, decide_due
from app.domain.states import EffectState, MessageState

REVIEW, COMMENT = "review", "comment"
"""The kinds of words: a review's body, an inline comment."""
REACTIONS = {REVIEW: "review_reaction", COMMENT: "remark_reaction"}
"""The effect that is a reaction to words of that kind."""
UNHEARD = ""
"""In place of a text's digest: GitHub lists the words, and no delivery has told of them yet."""

# ---------------------------------------------------------------- words


@dataclass(frozen=True)
class HeardWord:
    """The newest text of a review or an inline comment, as `Heard` is for a conversation."""

    edited_at: datetime | None
    body_sha: str
    commands: tuple[str, ...] = ()
    deleted: bool = False
    batch_id: uuid.UUID | None = None


async def find_word(session: AsyncSession, repo_id: int, kind: str, word_id: int) -> HeardWord | None:
    row = await session.get(ReviewWord, (repo_id, kind, word_id), populate_existing=True)
    if row is None:
        return None
    return HeardWord(row.edited_at, row.body_sha, tuple(row.commands), row.deleted, row.batch_id)


async def record_word(
    session: AsyncSession, key: tuple[int, str, int], review_id: int, heard: HeardWord, now: datetime
) -> None:
    """`key`: repository, kind, number. Raises IntegrityError at the commit when another worker was first."""
    repo_id, kind, word_id = key
    await session.merge(
        ReviewWord(
            repo_id=repo_id, kind=kind, word_id=word_id, review_id=review_id, batch_id=heard.batch_id,
            edited_at=heard.edited_at, body_sha=heard.body_sha, commands=list(heard.commands),
            deleted=heard.deleted, heard_at=now,
        )
    )  # fmt: skip
    await session.flush()


async def list_review_ids(session: AsyncSession, batch_id: uuid.UUID) -> set[int]:
    """The reviews that a batch is made of."""
    found = select(ReviewWord.review_id).where(ReviewWord.batch_id == batch_id, ReviewWord.deleted.is_(False))
    return set((await session.scalars(found)).all())


# ---------------------------------------------------------------- batches


@dataclass(frozen=True)
class NewBatch:
    """Words of one person, by number and name, on one pull request; `opened_at`: when the first of them came."""

    pull_number: int
    author_id: int
    author_login: str
    opened_at: datetime
    id: uuid.UUID | None = None


async def join_batch(
    session: AsyncSession, spec: Spec, review_id: int, new: NewBatch, *, alone: bool
) -> tuple[uuid.UUID, EffectId | None]:
    """The batch that a review goes into; `new` is what it would be. One that stands alone is looked at now, others when
    their author has been silent for a while. The caller holds the spec's row.

    The effect is one that has just been recorded.
    """
    known = await session.scalar(
        select(ReviewBatch)
        .join(ReviewWord, ReviewWord.batch_id == ReviewBatch.id)
        .where(ReviewWord.repo_id == spec.repo_id, ReviewWord.review_id == review_id)
        .limit(1)
        .execution_options(populate_existing=True)
    )
    if known is not None:
        if known.built_at is None and alone:
            await _look_at(session, spec.repo_id, known, new.opened_at)
        return known.id, None
    return await join_open_batch(session, spec, new, alone=alone)


async def join_open_batch(
    session: AsyncSession, spec: Spec, new: NewBatch, *, alone: bool
) -> tuple[uuid.UUID, EffectId | None]:
    """The same for words that no batch knows yet, or for none."""
    now = new.opened_at
    batch = None if alone else await _find_open(session, spec.id, new)
    if batch is not None:
        await _look_at(session, spec.repo_id, batch, decide_due(batch.opened_at, now))
        return batch.id, None
    opened, effect = await record_batch(session, spec, new, now if alone else decide_due(now, now))
    return opened.id, effect


async def record_batch(
    session: AsyncSession, spec: Spec, new: NewBatch, at: datetime
) -> tuple[ReviewBatch, EffectId | None]:
    """With the effect that has GitHub read for it at that time."""
    batch = ReviewBatch(
        id=new.id or uuid.uuid4(), spec_id=spec.id, pull_number=new.pull_number, author_id=new.author_id,
        author_login=new.author_login, looks=1, review_nodes=[], opened_at=new.opened_at,
    )  # fmt: skip
    session.add(batch)
    await session.flush()
    return batch, await _owe_look(session, spec, batch, None, at)


async def _find_open(session: AsyncSession, spec_id: str, new: NewBatch) -> ReviewBatch | None:
    """Of the same person on the same pull request: a batch is read there."""
    open_ones = select(ReviewBatch).where(
        ReviewBatch.spec_id == spec_id, ReviewBatch.author_id == new.author_id,
        ReviewBatch.pull_number == new.pull_number, ReviewBatch.built_at.is_(None),
    )  # fmt: skip
    found: ReviewBatch | None = await session.scalar(
        open_ones.order_by(ReviewBatch.opened_at).limit(1).execution_options(populate_existing=True)
    )
    return found


def key_of_look(repo_id: int, batch: ReviewBatch) -> str:
    """Of the effect that is the newest look at GitHub for that batch."""
    return f"{repo_id}:review_batch:{batch.id}:{batch.looks}"


async def _look_at(session: AsyncSession, repo_id: int, batch: ReviewBatch, at: datetime) -> None:
    await session.execute(
        update(Effect)
        .where(Effect.key == key_of_look(repo_id, batch), Effect.state == EffectState.PENDING)
        .values(not_before_at=at)
        .execution_options(synchronize_session=False)
    )


async def _owe_look(
    session: AsyncSession, spec: Spec, batch: ReviewBatch, changed: tuple[str, int] | None, at: datetime
) -> EffectId | None:
    payload = {"batch": str(batch.id), "changed": list(changed) if changed else None}
    repo = (spec.installation_id, spec.repo_id)
    return await record_effect(
        session, kind="review_batch", key=key_of_look(spec.repo_id, batch), repo=repo, payload=payload, now=at
    )


async def owe_another_look(
    session: AsyncSession, batch_id: uuid.UUID, changed: tuple[str, int] | None, now: datetime
) -> EffectId | None:
    """Something of a batch that had become a message was changed; `changed`: kind and number of the words that were.
    None when it did not become one yet, and so will be looked at anyway.
    """
    batch = await lock_batch(session, batch_id)
    if batch is None or batch.built_at is None:
        return None
    spec = (await session.execute(select(Spec).where(Spec.id == batch.spec_id))).scalar_one()
    batch.looks += 1
    await session.flush()
    return await _owe_look(session, spec, batch, changed, now)


async def split_off(
    session: AsyncSession, spec: Spec, batch: ReviewBatch, review_id: int, now: datetime
) -> None:
    """Make a batch of its own, read at once, of what one of several reviews in a batch says."""
    like_it = NewBatch(batch.pull_number, batch.author_id, batch.author_login, batch.opened_at)
    own, _ = await record_batch(session, spec, like_it, now)
    await session.execute(
        update(ReviewWord)
        .where(ReviewWord.batch_id == batch.id, ReviewWord.review_id == review_id)
        .values(batch_id=own.id)
        .execution_options(synchronize_session=False)
    )


async def find_batch(session: AsyncSession, batch_id: uuid.UUID) -> ReviewBatch | None:
    return await session.get(ReviewBatch, batch_id)


async def lock_batch(session: AsyncSession, batch_id: uuid.UUID) -> ReviewBatch | None:
    found: ReviewBatch | None = await session.scalar(
        select(ReviewBatch)
        .where(ReviewBatch.id == batch_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    return found


async def find_message_of(session: AsyncSession, batch_id: uuid.UUID) -> Message | None:
    return await session.get(Message, batch_id, populate_existing=True)


async def list_corrections(
    session: AsyncSession, batch: ReviewBatch, heading: str, place: str
) -> Sequence[Message]:
    """What the reviewer said instead of words of this batch, oldest first; they stand at `place`."""
    statement = (
        select(Message)
        .where(
            Message.spec_id == batch.spec_id, Message.author_id == batch.author_id,
            Message.created_at >= batch.opened_at, Message.place == place,
            Message.content.startswith(f"{heading}\n", autoescape=True),
        )
        .order_by(Message.created_at, Message.seq)
    )  # fmt: skip
    return (await session.scalars(statement)).all()


async def replace_threads(session: AsyncSession, batch_id: uuid.UUID, threads: Sequence[BatchThread]) -> None:
    """What the batch's message speaks of now."""
    for row in await list_threads(session, batch_id):
        await session.delete(row)
    await session.flush()
    for position, thread in enumerate(threads):
        session.add(
            ReviewThread(
                batch_id=batch_id, root_id=thread.root_id, comment_ids=list(thread.comment_ids), position=position
            )
        )  # fmt: skip
    await session.flush()


async def list_threads(session: AsyncSession, batch_id: uuid.UUID) -> Sequence[ReviewThread]:
    statement = select(ReviewThread).where(ReviewThread.batch_id == batch_id).order_by(ReviewThread.position)
    return (await session.scalars(statement)).all()


async def list_batches_of_thread(session: AsyncSession, spec_id: str, root_id: int) -> Sequence[uuid.UUID]:
    """Batches whose message speaks in that thread and is not answered yet."""
    statement = (
        select(ReviewBatch.id)
        .join(ReviewThread, ReviewThread.batch_id == ReviewBatch.id)
        .where(
            ReviewBatch.spec_id == spec_id, ReviewThread.root_id == root_id, ReviewBatch.answered_at.is_(None)
        )
    )  # fmt: skip
    return (await session.scalars(statement)).all()


async def list_unsent_batches(session: AsyncSession, spec_id: str) -> Sequence[uuid.UUID]:
    """Batches that were looked at and of which the agent has been given nothing yet: they wait to be sent, or for a thread
    of theirs that is resolved.
    """
    statement = (
        select(ReviewBatch.id)
        .outerjoin(Message, Message.id == ReviewBatch.id)
        .where(
            ReviewBatch.spec_id == spec_id, ReviewBatch.built_at.is_not(None), ReviewBatch.answered_at.is_(None),
            Message.sent_at.is_(None),
        )
    )  # fmt: skip
    return (await session.scalars(statement)).all()


# ---------------------------------------------------------------- receipts and answers


async def owe_receipts(
    session: AsyncSession, repo: tuple[int, int], batch_id: uuid.UUID, content: str, now: datetime
) -> EffectId | None:
    """Reactions to all that went into the message of that batch; one of the effects, None when nothing is owed. `repo`
    is (installation id, repository id), `content` GitHub's name of the reaction.
    """
    batch = await find_batch(session, batch_id)
    if batch is None:
        return None
    comment_ids = [one for thread in await list_threads(session, batch_id) for one in thread.comment_ids]
    targets: list[tuple[int | str, str]] = [
        *((node, REACTIONS[REVIEW]) for node in batch.review_nodes),
        *((one, REACTIONS[COMMENT]) for one in comment_ids),
    ]
    owed = [await record_reaction(session, repo, one, content, now, kind=kind) for one, kind in targets]
    return next(filter(None, owed), None)


async def owe_untold(
    session: AsyncSession,
    repo: tuple[int, int],
    batch: ReviewBatch,
    untold: tuple[Untold, Sequence[BatchThread]],
    now: datetime,
) -> None:
    """Threads that the message does not speak of, and why: 😕, and one answer each that says so."""
    why, threads = untold
    for thread in threads:
        for comment_id in thread.comment_ids:
            await record_reaction(session, repo, comment_id, CONFUSED, now, kind=REACTIONS[COMMENT])
        marker = untold_marker(str(batch.id), thread.root_id, why)
        await owe_thread_answer(
            session, repo, batch, (thread.root_id, marker, render_untold(marker, why)), now
        )


async def owe_refusal(session: AsyncSession, repo: tuple[int, int], refused: Composed, now: datetime) -> None:
    """😕 on all that a message would have been made of."""
    for node in refused.review_nodes:
        await record_reaction(session, repo, node, CONFUSED, now, kind=REACTIONS[REVIEW])
    for comment_id in (one for thread in refused.threads for one in thread.comment_ids):
        await record_reaction(session, repo, comment_id, CONFUSED, now, kind=REACTIONS[COMMENT])


async def owe_thread_answer(
    session: AsyncSession,
    repo: tuple[int, int],
    batch: ReviewBatch,
    answer: tuple[int, str, str],
    now: datetime,
) -> None:
    """One comment of ours in a thread of that batch; `answer`: the thread, its marker, the text with the marker."""
    root_id, marker, body = answer
    payload = {"pull": batch.pull_number, "thread": root_id, "marker": marker, "body": body}
    key = f"{repo[1]}:thread_answer:{marker}"
    await record_effect(session, kind="thread_answer", key=key, repo=repo, payload=payload, now=now)


async def list_unanswered(
    session: AsyncSession, spec_id: str, taken_in: Sequence[uuid.UUID], sandbox_id: str
) -> Sequence[ReviewBatch]:
    """Batches of the spec that the agent has had in a round that ends now: it says so itself, or an earlier sandbox
    confirmed them and did not come to an end.
    """
    earlier = and_(
        Message.state == MessageState.ACKNOWLEDGED,
        or_(Message.sandbox_id != sandbox_id, Message.sandbox_id.is_(None)),
    )
    statement = (
        select(ReviewBatch)
        .join(Message, Message.id == ReviewBatch.id)
        .where(
            ReviewBatch.spec_id == spec_id, ReviewBatch.answered_at.is_(None),
            or_(Message.id.in_(taken_in), earlier),
        )
        .order_by(ReviewBatch.opened_at)
    )  # fmt: skip
    return (await session.scalars(statement)).all()


async def list_unsettled(session: AsyncSession, spec_id: str) -> Sequence[ReviewBatch]:
    """Batches of the spec that an agent has, or is to get, and that nobody answered."""
    open_ones = (MessageState.QUEUED, MessageState.SENT, MessageState.ACKNOWLEDGED)
    statement = (
        select(ReviewBatch)
        .join(Message, Message.id == ReviewBatch.id)
        .where(
            ReviewBatch.spec_id == spec_id, ReviewBatch.answered_at.is_(None), Message.state.in_(open_ones)
        )
        .order_by(ReviewBatch.opened_at)
    )  # fmt: skip
    return (await session.scalars(statement)).all()


async def list_given_up(session: AsyncSession, sandbox_id: str) -> Sequence[ReviewBatch]:
    """Batches that this sandbox had and that nobody answered."""
    statement = (
        select(ReviewBatch)
        .join(Message, Message.id == ReviewBatch.id)
        .where(ReviewBatch.answered_at.is_(None), Message.sandbox_id == sandbox_id)
    )
    return (await session.scalars(statement)).all()
