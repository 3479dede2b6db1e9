"""`PUT …/artifacts/{name}`: bundles, manifests and transcripts, streamed into the database piece by piece."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from app.db.artifacts import CHUNK_BYTES, record_chunk, record_current, record_upload, remove_upload
from app.db.models import Sandbox
from app.db.relay import find_relayed
from app.db.sandbox_access import SandboxIdentity, lock_live
from app.db.specs import record_fact
from app.observability.crashpoints import crashpoint
from app.observability.logging import get_logger
from app.queue.jobs import JobName
from app.web.body import Broken, TooLarge, TooSlow, body_problem, declared_length, stream_capped
from app.web.event_intake import note_reported_spending
from app.web.parts import Parts, PartsOf
from app.web.problems import Problem, invalid, problems
from app.web.sandbox_auth import SandboxOf, ended, throttled
from sandbox_payload.wire import MAX_ARTIFACT_BYTES, ArtifactName, Manifest

log = get_logger()
router = APIRouter(
    prefix="/api/v1/sandboxes/{sandbox_id}", tags=["sandbox"], responses=problems(401, 403, 503)
)

MAX_MANIFEST_BYTES = 1_000_000
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_WEIGHTY = frozenset({ArtifactName.MANIFEST, ArtifactName.CHECKPOINT})


@dataclass
class _Upload:
    """One upload on its way: where it goes and what has come so far."""

    sandbox: SandboxIdentity
    name: ArtifactName
    sha256: str
    artifact_id: str = ""
    size: int = 0
    manifest: Manifest | None = None


@router.put(
    "/artifacts/{name}",
    status_code=204,
    responses=problems(400, 408, 413, 422, 429),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        },
        "parameters": [
            {
                "name": "X-Content-SHA256",
                "in": "header",
                "required": True,
                "schema": {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"},
            }
        ],
    },
)
async def put_artifact(request: Request, name: ArtifactName, sandbox: SandboxOf, parts: PartsOf) -> Response:
    """Takes the place of what had that name, all at once and only when the hash fits."""
    sha256 = request.headers.get("x-content-sha256", "").lower()
    if not _SHA256.fullmatch(sha256):
        raise Problem(422, "X-Content-SHA256 must be the SHA-256 of the body in hex")
    upload = _Upload(sandbox, name, sha256)
    with parts.uploads.taken(sandbox.id) as room:
        wait_s = parts.upload_bytes.wait_s(sandbox.id, _most_bytes(request, name)) if room else 1.0
        if wait_s:
            raise throttled(parts, "uploads", wait_s)
        version = await _receive(request, parts, upload)
    parts.metrics.artifacts.labels("stored").inc()
    log.info("artifact.stored", sandbox_id=sandbox.id, name=name.value, size=upload.size)
    if version is not None:
        parts.spawn(parts.doorbell.ring(JobName.ADVANCE, sandbox.spec_id, version))
    return Response(status_code=204)


def _cap(name: ArtifactName) -> int:
    return MAX_MANIFEST_BYTES if name is ArtifactName.MANIFEST else MAX_ARTIFACT_BYTES


def _most_bytes(request: Request, name: ArtifactName) -> int:
    """What an upload counts for before it has come: one that does not say its length, for all that it may have."""
    declared = declared_length(request)
    return _cap(name) if declared is None else declared


async def _receive(request: Request, parts: Parts, upload: _Upload) -> int | None:
    """Raises Problem; whatever goes wrong, nothing of the upload stays. The spec's new version, if it got one."""
    cap = _cap(upload.name)
    crashpoint("upload.before")
    async with parts.database.write() as session:
        upload.artifact_id = await record_upload(
            session, upload.sandbox.id, upload.name.value, upload.sha256, parts.clock()
        )
    crashpoint("upload.after")
    try:
        async with asyncio.timeout(parts.limits.upload_s):
            await _store_pieces(parts, upload, stream_capped(request, cap, parts.limits.chunk_s))
        return await _make_current(parts, upload)
    except (TooLarge, TooSlow, Broken) as error:
        raise body_problem(error, cap) from None
    except TimeoutError:
        raise body_problem(TooSlow(), cap) from None
    finally:
        if upload.artifact_id:
            parts.metrics.artifacts.labels("refused").inc()
            await parts.spawn(_remove(parts, upload.artifact_id))


async def _store_pieces(parts: Parts, upload: _Upload, body: AsyncIterator[bytes]) -> None:
    """Raises Problem 422 when the hash does not fit or a manifest is none."""
    digest = hashlib.sha256()
    position = 0
    kept = bytearray()
    async for piece in _in_chunks(body):
        digest.update(piece)
        upload.size += len(piece)
        if upload.name is ArtifactName.MANIFEST:
            kept += piece
        async with parts.database.write() as session:
            await record_chunk(session, upload.artifact_id, position, piece)
        position += 1
    if not hmac.compare_digest(digest.hexdigest(), upload.sha256):
        raise Problem(422, "the body does not have the hash that X-Content-SHA256 names")
    if upload.name is ArtifactName.MANIFEST:
        upload.manifest = _parse_manifest(bytes(kept), upload.sandbox.id)


async def _in_chunks(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same bytes in pieces of CHUNK_BYTES, the last one shorter."""
    buffer = bytearray()
    async for piece in body:
        buffer += piece
        while len(buffer) >= CHUNK_BYTES:
            yield bytes(buffer[:CHUNK_BYTES])
            del buffer[:CHUNK_BYTES]
    if buffer:
        yield bytes(buffer)


def _parse_manifest(body: bytes, sandbox_id: str) -> Manifest:
    try:
        manifest = Manifest.model_validate_json(body)
    except ValidationError as error:
        raise invalid(error) from None
    if manifest.sandbox_id != sandbox_id:
        raise Problem(422, "the manifest is of another sandbox")
    return manifest


async def _make_current(parts: Parts, upload: _Upload) -> int | None:
    now = parts.clock()
    version: int | None = None
    crashpoint("artifact.before")
    async with parts.database.write() as session:
        row = await lock_live(session, upload.sandbox.id)
        if row is None:
            raise ended()
        await record_current(session, upload.sandbox.id, upload.name.value, upload.artifact_id, upload.size)
        if upload.manifest is not None:
            _note_manifest(row, upload.manifest)
            if await session.run_sync(find_relayed, [row.id]):
                # With the round, which may be the last thing that is taken in of it.
                note_reported_spending(row, upload.manifest.cost_usd, now)
        row.updated_at = now
        if upload.name in _WEIGHTY:
            version = await record_fact(session, upload.sandbox.spec_id, now)
    crashpoint("artifact.after")
    upload.artifact_id = ""
    return version


def _note_manifest(row: Sandbox, manifest: Manifest) -> None:
    row.manifest_round = max(row.manifest_round, manifest.round)
    row.activity = "waiting"  # The round is over, also when nothing more is heard of the sandbox.
    row.session_id = manifest.session_id or row.session_id


async def _remove(parts: Parts, artifact_id: str) -> None:
    async with parts.database.write() as session:
        await remove_upload(session, artifact_id)
