"""One answer of ours in every thread of a batch: what became of its words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from app.db.effects import record_effect
from app.db.models import ReviewBatch, Spec
from app.db.reviews import list_threads, list_unsettled, owe_thread_answer
from app.domain.review_answers import Round, answer_marker, render_answer
from worker.step import Step


async def owe_merged_answers(step: Step, session: AsyncSession) -> None:
    """To all that is still open, since nobody goes on with it. Again owes nothing."""
    await owe_to(step, session, await list_unsettled(session, step.spec.id), Round(merged=True))


async def owe_to(step: Step, session: AsyncSession, batches: Sequence[ReviewBatch], came_to: Round) -> None:
    """And, where something was pushed, has the reviewer look again."""
    now, spec = step.now(), step.spec
    repo = (spec.installation_id, spec.repo_id)
    commit_url = f"{step.parts.web_url}/{step.repo.full_name}/commit/{came_to.sha}"
    for batch in batches:
        for thread in await list_threads(session, batch.id):
            marker = answer_marker(str(batch.id), thread.root_id)
            body = render_answer(marker, thread.root_id, came_to, commit_url)
            await owe_thread_answer(session, repo, batch, (thread.root_id, marker, body), now)
        if came_to.sha and not came_to.failed:
            await _ask_again(session, spec, batch, now)
        batch.answered_at = now
        batch.failed_at = now if came_to.failed else None
    await session.flush()


async def _ask_again(session: AsyncSession, spec: Spec, batch: ReviewBatch, now: datetime) -> None:
    """Where the commit is: the words may stand on an earlier pull request."""
    repo, key = (spec.installation_id, spec.repo_id), f"{spec.repo_id}:review_again:{batch.id}"
    payload = {"pull": spec.pull_number or batch.pull_number, "login": batch.author_login}
    await record_effect(session, kind="review_again", key=key, repo=repo, payload=payload, now=now)
