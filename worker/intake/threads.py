"""Threads of reviews that are resolved or opened again.

Whoever resolves one, what was not sent yet needs no answer any more. A person with write access who opens one again
asks for it to be worked on once more: it joins what that person says in the next moments, as one batch.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from app.db import reviews, specs
from app.db.models import Spec
from app.db.unresolved import Unresolved, find_unsent_batch, take_up_thread
from app.domain.ids import UserId
from app.domain.ports import User
from app.domain.states import DeliveryState
from app.domain.triggers import Happening, moment_of
from worker.intake.addressed import repo_of
from worker.intake.permission import Permissions
from worker.parts import Parts
from worker.verdict import Verdict


async def note_thread(parts: Parts, permissions: Permissions, happening: Happening, spec: Spec) -> Verdict:
    """One that was resolved or opened again. Batches of which nothing was sent yet are read anew for both."""
    if happening.action == "resolved":
        return _note_resolved(parts, happening, spec)
    person = User(UserId(happening.sender_id or 0), happening.sender_login, happening.sender_type)
    if not await permissions.may_write(repo_of(happening), person):
        return Verdict("review", "opened again without write access", DeliveryState.IGNORED)
    asked = Unresolved(
        happening.pull_number or 0,
        happening.thread_root_id or 0,
        moment_of(happening.thread_changed_at),
        int(person.user_id),
        person.login,
    )
    return _note_unresolved(parts, spec, asked)


def _note_resolved(parts: Parts, happening: Happening, spec: Spec) -> Verdict:
    verdict = Verdict("review", "resolved", spec_ids=[spec.id])

    async def write(session: AsyncSession) -> None:
        await specs.record_fact(session, spec.id, parts.clock())
        batches = await reviews.list_batches_of_thread(session, spec.id, happening.thread_root_id or 0)
        for batch_id in batches:
            effect = await reviews.owe_another_look(session, batch_id, None, parts.clock())
            verdict.effect_ids += [effect] if effect else []

    verdict.writes.append(write)
    return verdict


def _note_unresolved(parts: Parts, spec: Spec, asked: Unresolved) -> Verdict:
    verdict = Verdict("review", "opened again", spec_ids=[spec.id])

    async def write(session: AsyncSession) -> None:
        now = parts.clock()
        await specs.record_fact(session, spec.id, now)
        # Which of them left it out, GitHub tells.
        for batch_id in await reviews.list_unsent_batches(session, spec.id):
            effect = await reviews.owe_another_look(session, batch_id, None, now)
            verdict.effect_ids += [effect] if effect else []
        # What it records is due later, or rung for by the sweep.
        await take_up_thread(session, spec, asked, now)

    verdict.writes.append(write)
    return verdict


async def look_where_opened_again(
    session: AsyncSession, happening: Happening, verdict: Verdict, now: datetime
) -> None:
    """Words in that thread were changed or deleted: a batch that shows them because the thread was opened again, and of
    which nothing was sent yet, is read anew.
    """
    repo_id, root_id = repo_of(happening).repo_id, happening.thread_root_id
    batch_id = await find_unsent_batch(session, repo_id, root_id) if root_id is not None else None
    if batch_id is not None:
        effect = await reviews.owe_another_look(session, batch_id, None, now)
        verdict.effect_ids += [effect] if effect else []
