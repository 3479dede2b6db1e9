"""The work is never lost: what a dead sandbox had committed reaches the branch, or stays on the server as a bundle; the
end of its log stays too.
"""

from __future__ import annotations

import hashlib

import structlog

from app.db.artifacts import record_chunk, record_current, record_upload
from app.db.models import Sandbox
from app.domain.errors import OutsideError
from app.domain.ids import SandboxId
from app.domain.notices import KEPT
from app.domain.result_policy import PushRefused
from app.domain.secrets_scan import redact
from app.domain.supervision import LOG_TAIL
from app.git.merge import Conflicted
from sandbox_payload.wire import ArtifactName, Manifest
from worker.flow.take_result import find_manifest, take_result
from worker.step import Step

log = structlog.get_logger("worker.rescue")

TAIL_BYTES = 65_536


async def rescue_checkpoint(step: Step, sandbox: Sandbox) -> bool:
    """Push the last checkpoint onto the branch. True when commits were added; a refused one is kept and said so."""
    return await _rescue(step, sandbox, ArtifactName.CHECKPOINT, None)


async def rescue_result(step: Step, sandbox: Sandbox) -> bool:
    """The same of a result that no step has dealt with; where there is none, of the last checkpoint."""
    handed_in = sandbox.manifest_round > sandbox.collected_round
    manifest = await find_manifest(step, sandbox) if handed_in else None
    name = ArtifactName.CHECKPOINT if manifest is None else ArtifactName.RESULT
    return await _rescue(step, sandbox, name, manifest)


async def _rescue(step: Step, sandbox: Sandbox, name: ArtifactName, manifest: Manifest | None) -> bool:
    if step.spec.branch is None or step.spec.head_sha is None:
        return False
    taken = await take_result(step, sandbox, name, manifest)
    if taken.pushed is not None and taken.pushed != step.spec.head_sha:
        await step.save(head_sha=taken.pushed)
        return True
    if isinstance(taken.decision, PushRefused | Conflicted):
        await step.add_note(KEPT.format(spec_id=step.spec.id))
    return False


async def save_log(step: Step, sandbox: Sandbox) -> None:
    """While the provider still has it. What can't be read is no reason to keep people waiting."""
    try:
        tail = await step.parts.sandboxes.fetch_log_tail(sandbox.provider_name, TAIL_BYTES)
    except OutsideError as error:
        log.warning("log.not_saved", sandbox_id=sandbox.id, error=str(error)[:300])
        return
    if not tail:
        return
    data = redact(tail.decode("utf-8", "replace"), step.parts.secrets).encode()
    digest, box = hashlib.sha256(data).hexdigest(), SandboxId(sandbox.id)
    async with step.saving() as session:
        artifact = await record_upload(session, box, LOG_TAIL, digest, step.now())
        await record_chunk(session, artifact, 0, data)
        await record_current(session, box, LOG_TAIL, artifact, len(data))
