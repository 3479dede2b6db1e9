"""A batch of review words becomes a message, and is brought up to date while the agent has not been given it.

Nothing is taken from deliveries: the words are read from GitHub now, so the newest text counts, resolved threads and
deleted comments are left out, and only writers' earlier comments are shown.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from app.db import reviews, specs
from app.db.again import is_renewed, renew_batch
from app.db.messages import (
    NewMessage,
    replace_message,
    withdraw_message,
)
from app.db.models import Effect, Message, ReviewBatch
from app.db.review_scope import find_scope
from app.db.unresolved import has_pending_looks, list_unresolved
from app.domain.errors import RetryAt
from app.domain.ids import UserId
from app.domain.ports import RepoRef, User
from app.domain.replies import (
    ACCESS_LOST,
    ALTERED_REVIEW,
    EYES,
)
from app.domain.review import compose_batch
from app.domain.review_answers import Untold, are_unanswered
from app.domain.review_scope import Scope
from app.domain.review_words import Composed, PullWords, stands_alone
from app.domain.sanitize import escape_markdown
from app.domain.states import MessageState
from app.observability.crashpoints import crashpoint
from sandbox_payload.wire import MessageType
from worker.parts import Parts
from worker.review_edits import Edited, find_edited, say_edited
from worker.review_said import has_said_enough, is_over, owe_notice, queue

KINDS = frozenset({"review_batch", "review_reaction", "remark_reaction", "thread_answer", "review_again"})
"""Effects that are about reviews."""


async def perform_review_effect(parts: Parts, repo: RepoRef, effect: Effect) -> None:
    """Safe to do twice, as every effect."""
    payload, github = effect.payload, parts.github
    if effect.kind == "review_batch":
        await take_up_batch(parts, repo, payload)
    elif effect.kind == "review_reaction":
        await github.ensure_review_reaction(repo, str(payload["node_id"]), str(payload["content"]))
    elif effect.kind == "remark_reaction":
        await github.ensure_remark_reaction(repo, int(payload["comment_id"]), str(payload["content"]))
    elif effect.kind == "thread_answer":
        await github.ensure_thread_answer(
            repo, int(payload["pull"]), int(payload["thread"]), str(payload["marker"]), str(payload["body"])
        )
    else:
        await github.ensure_review_requested(repo, int(payload["pull"]), str(payload["login"]))


async def take_up_batch(parts: Parts, repo: RepoRef, payload: Mapping[str, Any]) -> None:
    """Read what the batch says now and hand it on. Raises RetryAt when more of it came while it was read."""
    batch_id = uuid.UUID(str(payload["batch"]))
    async with parts.db.read() as session:
        batch = await reviews.find_batch(session, batch_id)
        if batch is None or (batch.answered_at is not None and not payload.get("changed")):
            return
        scope = await find_scope(session, batch_id)
        opened = await list_unresolved(session, batch)
        waits = bool(opened) and batch.built_at is None
        if waits and await has_pending_looks(session, repo.repo_id, batch):
            # One of them may turn out to have the same thread.
            raise RetryAt("another batch is to be read before", parts.clock() + timedelta(seconds=2))
    words = await parts.github.fetch_pull_words(repo, batch.pull_number, scope.review_ids)
    if batch.built_at is None and (apart := _apart(words, scope.review_ids)):
        await _split(parts, batch_id, apart)
        raise RetryAt("reviews in it are batches of their own", parts.clock())
    again = are_unanswered(words, opened, (await parts.identity()).bot_user_id)
    composed = await _compose(parts, repo, batch, scope.own(words), again)
    crashpoint("review_message.before")
    async with parts.db.write() as session:
        # The spec's row first, as everywhere that messages and sandboxes are recorded.
        await specs.record_fact(session, batch.spec_id, parts.clock())
        locked = await reviews.lock_batch(session, batch_id)
        if locked is None or await _has_grown(session, locked, scope, opened):
            raise RetryAt("more of the same batch came meanwhile", parts.clock())
        changed = payload.get("changed")
        edited = find_edited(words, changed, batch.pull_number) if changed else None
        told = await _record(parts, session, locked, composed, edited)
    crashpoint("review_message.after")
    if told is not None and told.sandbox_id is not None:
        await parts.ring(told.sandbox_id)


def _apart(words: PullWords, review_ids: Collection[int]) -> list[int]:
    """Reviews that must not share a batch. Inline comments tell which review they belong to, and not of which kind it
    is; so those of several, heard before any of the reviews themselves, were collected into one.
    """
    alone = [one.review_id for one in words.reviews if stands_alone(one.state, one.body)]
    return alone[1:] if len(alone) == len(review_ids) else alone if len(review_ids) > 1 else []


async def _split(parts: Parts, batch_id: uuid.UUID, review_ids: Collection[int]) -> None:
    async with parts.db.write() as session:
        batch = await reviews.find_batch(session, batch_id)
        spec = await specs.find_spec(session, batch.spec_id) if batch is not None else None
        if batch is None or spec is None:
            return
        await specs.record_fact(session, spec.id, parts.clock())
        locked = await reviews.lock_batch(session, batch_id)
        present = await reviews.list_review_ids(session, batch_id)
        if locked is None or locked.built_at is not None:
            return
        for review_id in sorted(present.intersection(review_ids)):
            await reviews.split_off(session, spec, locked, review_id, parts.clock())


async def _has_grown(
    session: AsyncSession,
    batch: ReviewBatch,
    scope: Scope,
    opened: Sequence[tuple[int, datetime | None]],
) -> bool:
    """Or shrunk: a thread that was opened again may be another batch's by now."""
    if await find_scope(session, batch.id) != scope:
        return True
    return list(await list_unresolved(session, batch)) != list(opened)


async def _compose(
    parts: Parts, repo: RepoRef, batch: ReviewBatch, words: PullWords, again: Collection[int]
) -> Composed | None:
    """With permissions as they are now: of the reviewer, and of everybody who spoke in the same threads before. None
    when the reviewer has no say any more. `again`: threads that were opened again.
    """
    author = (batch.author_id, batch.author_login)
    speakers = {batch.author_id: User(UserId(batch.author_id), batch.author_login)}
    # In a thread: long words of strangers take seconds to read.
    draft = await asyncio.to_thread(compose_batch, words, author, (), batch.pull_number)
    roots = {thread.root_id for thread in draft.threads} | set(again)
    for remark in words.remarks:
        human = remark.author_type != "Bot" and not remark.author_login.endswith("[bot]")
        if remark.author_id is not None and remark.root_id in roots and human:
            speakers[remark.author_id] = User(UserId(remark.author_id), remark.author_login)
    writers = {
        number
        for number, speaker in speakers.items()
        if (await parts.github.fetch_permission(repo, speaker)).may_write
    }
    if batch.author_id not in writers:
        return Composed("") if draft.is_empty and not again else None
    return await asyncio.to_thread(compose_batch, words, author, writers, batch.pull_number, again)


async def _record(
    parts: Parts,
    session: AsyncSession,
    batch: ReviewBatch,
    composed: Composed | None,
    edited: Edited | None,
) -> Message | None:
    """The message that is new, if one is."""
    message = await reviews.find_message_of(session, batch.id)
    if composed is None and (message is None or message.state is MessageState.QUEUED):
        text = ACCESS_LOST.format(login=escape_markdown(batch.author_login))
        await owe_notice(parts, session, batch, f"no_access:{batch.id}", text)
    if message is None:
        return await _hand_over(parts, session, batch, composed or Composed(""))
    if message.state is MessageState.CANCELLED and composed is not None and composed.text:
        # Withdrawn, since all of it was resolved or deleted; some of it counts again.
        spec = await specs.find_spec(session, batch.spec_id)
        if spec is not None and (batch.answered_at is None or edited is not None):
            await renew_batch(session, spec, batch.id, parts.clock())
        return None
    if message.state is MessageState.QUEUED:
        if composed is not None and composed.text:
            await replace_message(session, message.id, composed.text)
            await _keep(parts, session, batch, composed)
        else:
            await withdraw_message(session, message.id)
            batch.answered_at = None if composed is not None and composed.waits else parts.clock()
            await reviews.replace_threads(session, batch.id, ())
            spec = await specs.find_spec(session, batch.spec_id)
            if spec is not None and composed is not None:
                repo = (spec.installation_id, spec.repo_id)
                await _say_untold(parts, session, repo, batch, composed)
        return None
    if edited is None or composed is None:
        return None
    is_said = composed.is_said_in(message.content, edited.root_id)
    return await say_edited(parts, session, batch, edited, is_said=is_said)


async def _hand_over(
    parts: Parts, session: AsyncSession, batch: ReviewBatch, composed: Composed
) -> Message | None:
    message = await _tell(parts, session, batch, composed)
    batch.built_at = parts.clock()
    # What came to nothing is read again only where a resolved thread may be opened, or when its words are changed.
    waits = message is not None or (composed.waits and not composed.text)
    batch.answered_at = None if waits else batch.built_at
    return message


async def _tell(
    parts: Parts, session: AsyncSession, batch: ReviewBatch, composed: Composed
) -> Message | None:
    spec = await specs.find_spec(session, batch.spec_id)
    if spec is None or composed.is_empty:
        return None
    if await is_over(parts, session, spec, batch):
        return None
    if await has_said_enough(parts, session, spec, batch):
        await reviews.owe_refusal(session, (spec.installation_id, spec.repo_id), composed, parts.clock())
        return None
    await _keep(parts, session, batch, composed)
    if not composed.text:
        return None
    new = NewMessage(
        MessageType.USER_MESSAGE.value, composed.text, author_id=batch.author_id,
        author_login=batch.author_login, id=batch.id, place=composed.place,
    )  # fmt: skip
    stops = composed.stops and not await is_renewed(session, batch)
    return await queue(parts, session, spec, batch, new, stops=stops)


async def _keep(parts: Parts, session: AsyncSession, batch: ReviewBatch, composed: Composed) -> None:
    """What the message speaks of, with 👀 on all of it."""
    batch.review_nodes = list(composed.review_nodes)
    await session.flush()
    await reviews.replace_threads(session, batch.id, composed.threads)
    spec = await specs.find_spec(session, batch.spec_id)
    if spec is not None:
        repo = (spec.installation_id, spec.repo_id)
        await reviews.owe_receipts(session, repo, batch.id, EYES, parts.clock())
        await _say_untold(parts, session, repo, batch, composed)


async def _say_untold(
    parts: Parts, session: AsyncSession, repo: tuple[int, int], batch: ReviewBatch, composed: Composed
) -> None:
    now = parts.clock()
    await reviews.owe_untold(session, repo, batch, (Untold.LEFT_OUT, composed.left_out), now)
    await reviews.owe_untold(session, repo, batch, (Untold.ALTERED, composed.altered), now)
    if composed.altered_nodes:
        await reviews.owe_refusal(session, repo, Composed("", review_nodes=composed.altered_nodes), now)
        text = ALTERED_REVIEW.format(login=escape_markdown(batch.author_login))
        await owe_notice(parts, session, batch, f"altered:{batch.id}", text)
