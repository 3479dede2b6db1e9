"""What a sandbox had ready and could not hand over before it ended is handed in for it, as it would have itself.

Where the provider keeps the files of an ended sandbox, nothing is lost by an app or workers that were away meanwhile. The
app takes them in with that sandbox's own token and under the same rules as everything that comes out of one.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import shutil
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import httpx
import structlog
from pydantic import ValidationError

from app.db.locks import get_wait_start
from app.db.models import Sandbox
from app.db.sandboxes import find_artifact
from app.domain.errors import Denied, RetryAt, Unexpected
from app.domain.notices import LEFT_GIVEN_UP
from app.domain.remote import KeepsFiles, Left
from app.domain.supply import Shortage
from app.observability.crashpoints import crashpoint
from sandbox_payload.wire import ArtifactName, Manifest
from sandbox_payload.wire.relay import RelayedCall
from worker.flow.order import sandbox_token
from worker.operations import forget_done, run_operation
from worker.parts import Door, Parts
from worker.pauses import Waits
from worker.step import Step

log = structlog.get_logger("worker.left")

PATIENCE_S = 10.0
AWAY_LIMIT_S = 600.0
"""How long an app that can't be reached is asked again."""
AWAY_S = 2.0
LEFT_LIMIT = timedelta(hours=2)
"""How long a provider is waited for that does not start it. Daytona deletes what has stood still for as long."""
FORGOTTEN_S = 86_400.0


async def is_handed_in(step: Step, sandbox: Sandbox) -> bool:
    """Whether all that the ended sandbox had ready is with the app by now, as far as it can be had: then nothing speaks
    against removing it. False while that goes on beside the step: ask again. Whoever asks reads the rows afresh.

    Raises Waits while the provider is away or has no room to start the sandbox. After LEFT_LIMIT of that it is given up,
    and told.
    """
    provider, door, parts = step.parts.sandboxes, step.parts.door, step.parts
    if door is None or not isinstance(provider, KeepsFiles):
        return True
    files, asked = provider, door
    name = f"left:{sandbox.id}"

    async def hand_in() -> None:
        crashpoint("left.before")
        await _hand_in(parts, files, asked, sandbox)
        crashpoint("left.after")

    waiting = f"left.waits:{sandbox.id}"
    try:
        if not await run_operation(parts, name, hand_in, patience_s=PATIENCE_S):
            return False
    except RetryAt as later:
        async with parts.db.write() as session:
            since_at = await get_wait_start(session, waiting, step.now())
        if step.now() - since_at < LEFT_LIMIT:
            raise Waits(Shortage.HAND_IN, str(later), later.at) from later
        log.warning("left.given_up", sandbox_id=sandbox.id, since=since_at.isoformat())
        await step.add_note(LEFT_GIVEN_UP.format(hours=f"{LEFT_LIMIT.total_seconds() / 3600:g}"))
        return True
    for done in (name, waiting):
        await forget_done(parts, done)
    return True


async def _hand_in(parts: Parts, provider: KeepsFiles, door: Door, sandbox: Sandbox) -> None:
    directory = parts.home / "left" / sandbox.id
    await asyncio.to_thread(_clear, directory.parent)
    try:
        left = await provider.save_left(sandbox.provider_name, directory)
        until = time.monotonic() + AWAY_LIMIT_S
        for name, path in await asyncio.to_thread(choose_left, left, sandbox):
            if (
                not await _hand_in_one(parts, door, sandbox, (name, path), until)
                and name is ArtifactName.RESULT
            ):
                break
    except (Unexpected, Denied) as error:
        log.warning("left.not_saved", sandbox_id=sandbox.id, error=str(error)[:300])
    finally:
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)


def _clear(place: Path) -> None:
    """What a killed worker has left here."""
    for path in place.glob("*"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > FORGOTTEN_S:
                shutil.rmtree(path, ignore_errors=True)


def choose_left(left: Left, sandbox: Sandbox) -> list[tuple[ArtifactName, Path]]:
    """In the order in which they are handed in: a manifest last, and only with the result that it is about."""
    chosen = [
        (ArtifactName.TRANSCRIPT, left.transcript),
        (ArtifactName.CHECKPOINT, left.checkpoint),
        *_round(left, sandbox),
    ]
    return [(name, path) for name, path in chosen if path is not None]


def _round(left: Left, sandbox: Sandbox) -> list[tuple[ArtifactName, Path | None]]:
    """A round that was whole in the sandbox and of which the app has not heard."""
    if left.manifest is None:
        return []
    try:
        manifest = Manifest.model_validate_json(left.manifest.read_bytes())
    except ValidationError:
        return []
    if manifest.round <= sandbox.manifest_round:
        return []
    digest = manifest.bundle_sha256
    if digest is None:
        return [(ArtifactName.MANIFEST, left.manifest)]
    if left.result is None or _digest_of(left.result) != digest:
        return []
    return [(ArtifactName.RESULT, left.result), (ArtifactName.MANIFEST, left.manifest)]


async def _hand_in_one(
    parts: Parts, door: Door, sandbox: Sandbox, file: tuple[ArtifactName, Path], until: float
) -> bool:
    """True when the app has it. An app that is away is asked again until time.monotonic() is `until`."""
    name, path = file
    digest, size = await asyncio.to_thread(lambda: (_digest_of(path), path.stat().st_size))
    async with parts.db.read() as session:
        known = await find_artifact(session, sandbox.id, name.value)
    if known is not None and known.sha256 == digest:
        return True
    told = {"sandbox_id": sandbox.id, "name": name.value, "size": size}
    token = sandbox_token(parts.token_key, sandbox.id)
    while True:
        call = RelayedCall(
            call=secrets.token_hex(8), method="PUT", path=f"/artifacts/{name.value}", size=size, sha256=digest
        )
        try:
            answer = await door.ask(sandbox.id, token, call, path)
        except httpx.TransportError as error:
            status, detail = 503, type(error).__name__
        else:
            status, detail = answer.status, answer.body[:200]
        if 200 <= status < 300:
            log.info("left.handed_in", **told)
            return True
        passing = status in {408, 425, 429} or status >= 500
        if not passing or time.monotonic() > until:
            log.warning("left.not_taken", **told, status=status, detail=detail)
            return False
        await asyncio.sleep(AWAY_S)


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
