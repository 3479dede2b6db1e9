"""After a round: every thread of the reviews that the agent had in it is owed one answer.

They are recorded in the commit that says the round was dealt with, after its push, and written at their own pace.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import Sandbox
from app.db.reviews import list_given_up, list_unanswered
from app.domain.review_answers import Round
from app.domain.secrets_scan import redact
from sandbox_payload.wire import Manifest
from worker.flow.take_result import Taken
from worker.flow.thread_answers import owe_to
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
    await owe_to(step, session, batches, came_to)


async def owe_failed_answers(step: Step, session: AsyncSession, sandbox: Sandbox, reason: str) -> None:
    """To the batches of a sandbox that is given up: an honest word instead of silence."""
    await owe_to(step, session, await list_given_up(session, sandbox.id), Round(failed=reason or "failed"))


def _uuids(texts: Sequence[str]) -> list[uuid.UUID]:
    """Those that are: the sandbox wrote them."""
    found = []
    for text in texts:
        try:
            found.append(uuid.UUID(text))
        except ValueError:
            continue
    return found
