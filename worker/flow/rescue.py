"""The work is never lost: what a dead sandbox had committed reaches the branch, or stays on the server as a bundle."""

from __future__ import annotations

from app.db.models import Sandbox
from app.domain.notices import KEPT
from app.domain.result_policy import PushRefused
from app.git.merge import Conflicted
from sandbox_payload.wire import ArtifactName
from worker.flow.take_result import take_result
from worker.step import Step


async def rescue_checkpoint(step: Step, sandbox: Sandbox) -> bool:
    """Push the last checkpoint onto the branch. True when commits were added; a refused one is kept and said so."""
    if step.spec.branch is None or step.spec.head_sha is None:
        return False
    taken = await take_result(step, sandbox, ArtifactName.CHECKPOINT, None)
    if taken.pushed is not None and taken.pushed != step.spec.head_sha:
        await step.save(head_sha=taken.pushed)
        return True
    if isinstance(taken.decision, PushRefused | Conflicted):
        await step.add_note(KEPT.format(spec_id=step.spec.id))
    return False
