"""After a round: every thread of the reviews that the agent had in it is owed one answer.

They are recorded in the commit that says the round was dealt with, after its push, and written at their own pace.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from app.db.effects import record_effect
from app.db.models import ReviewBatch, Sandbox, Spec
from app.db.reviews import list_given_up, list_threads, list_unanswered, owe_thread_answer
from app.domain.review_answers import Round, answer_marker, render_answer
from app.domain.secrets_scan import redact
from sandbox_payload.wire import Manifest
from worker.flow.take_result import Taken
from worker.step import Step


async def owe_answers(
    step: Step, session: AsyncSession, sandbox: Sandbox, manifest: Manifest, taken: Taken
) -> None:
    """To the batches that the agent says it was given, as far as they are this spec's and have no answers yet."""
    batches = await list_unanswered(session, step.spec.id, _uuids(manifest.taken_in), sandbox.id)
    answers = {one.thread: redact(one.answer, step.parts.secrets) for one in manifest.answers}
    # The commit of this round is not saved yet: what the spec has is the head before it.
    pushed = taken.pushed if taken.pushed != step.spec.head_sha else None
    came_to = Round(
        sha=pushed or "", files=taken.files, failed=manifest.reason if manifest.status != "completed" else "",
        answers=answers,
    )  # fmt: skip
    await _owe(step, session, batches, came_to)


async def owe_failed_answers(step: Step, session: AsyncSession, sandbox: Sandbox, reason: str) -> None:
    """To the batches of a sandbox that is given up: an honest word instead of silence."""
    await _owe(step, session, await list_given_up(session, sandbox.id), Round(failed=reason or "failed"))


async def _owe(step: Step, session: AsyncSession, batches: Sequence[ReviewBatch], came_to: Round) -> None:
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


def _uuids(texts: Sequence[str]) -> list[uuid.UUID]:
    """Those that are: the sandbox wrote them."""
    found = []
    for text in texts:
        try:
            found.append(uuid.UUID(text))
        except ValueError:
            continue
    return found
