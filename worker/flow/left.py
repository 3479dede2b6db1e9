"""What a sandbox had ready and could not hand over before it ended is handed in for it, as it would have itself.

Where the provider keeps the files of an ended sandbox, nothing is lost by an app or workers that were away meanwhile. The
app takes them in with that sandbox's own token and under the same rules as everything that comes out of one.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import structlog
from pydantic import ValidationError

from app.db.locks import get_wait_start
from app.db.models import Sandbox
from app.db.relay import record_relay
from app.db.sandboxes import find_artifact
from app.db.supervision import list_listeners
from app.domain.errors import Denied, RetryAt, Unexpected
from app.domain.notices import LEFT_BY_APP, LEFT_BY_PROVIDER, LEFT_GIVEN_UP, LEFT_UNREACHED
from app.domain.remote import KeepsFiles, Left
from app.domain.supervision import REACHABLE, Listener
from app.domain.supply import Shortage
from app.observability.crashpoints import crashpoint
from sandbox_payload.wire import ArtifactName, Manifest
from worker.flow.left_events import hand_in_events
from worker.flow.on_behalf import AppAway, OnBehalf
from worker.operations import forget_done, run_operation
from worker.parts import Door, Parts
from worker.pauses import Waits
from worker.step import Step

log = structlog.get_logger("worker.left")

PATIENCE_S = 10.0
LEFT_LIMIT = timedelta(hours=2)
"""How long an app that is away is waited for, or a provider that does not start it. Daytona deletes what has stood still for as long."""
UNREACHED_LIMIT = timedelta(minutes=10)
"""The same of an app that is heard of all that time, though not answered by: this worker's network is in the way."""
FORGOTTEN_S = 86_400.0


async def is_handed_in(step: Step, sandbox: Sandbox) -> bool:
    """Whether all that the ended sandbox had ready is with the app by now, as far as it can be had: then nothing speaks
    against removing it. False while that goes on beside the step: ask again. Whoever asks reads the rows afresh.

    Raises Waits while the app is away, or the provider is or has no room to start the sandbox. After LEFT_LIMIT of that,
    or UNREACHED_LIMIT of an app that is not away, it is given up, and told.
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
            listeners = await list_listeners(session)
        away = isinstance(later, AppAway)
        unreached = away and _is_out_of_reach(step.now(), since_at, listeners)
        if step.now() - since_at < LEFT_LIMIT and not unreached:
            raise Waits(Shortage.APP if away else Shortage.HAND_IN, str(later), later.at) from later
        log.warning("left.given_up", sandbox_id=sandbox.id, since=since_at.isoformat(), unreached=unreached)
        why = LEFT_UNREACHED if unreached else LEFT_BY_APP if away else LEFT_BY_PROVIDER
        await step.add_note(LEFT_GIVEN_UP.format(why=why))
        return True
    for done in (name, waiting):
        await forget_done(parts, done)
    return True


def _is_out_of_reach(now: datetime, since_at: datetime, listeners: Sequence[Listener]) -> bool:
    """Whether a web process has been up for all of UNREACHED_LIMIT, as the database knows, and was not reached."""
    up = [one.started_at for one in listeners if now - one.beat_at <= REACHABLE]
    return bool(up) and now - max(since_at, min(up)) >= UNREACHED_LIMIT


async def _hand_in(parts: Parts, provider: KeepsFiles, door: Door, sandbox: Sandbox) -> None:
    directory = parts.home / "left" / sandbox.id
    await asyncio.to_thread(_clear, directory.parent)
    try:
        left = await provider.save_left(sandbox.provider_name, directory)
        if left.relayed:
            # The worker that started it may have died before it noted that: its spending would count nowhere.
            async with parts.db.write() as session:
                await record_relay(session, sandbox.id, parts.clock())
        app = OnBehalf(parts, door, sandbox)
        await hand_in_events(app, left.spool, sandbox.last_seq)
        for name, path in await asyncio.to_thread(choose_left, left, sandbox):
            handed_in = await _hand_in_one(parts, app, sandbox, name, path)
            if name is ArtifactName.RESULT and not handed_in:
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
    """In the order in which they are handed in: a manifest last, and only with the result that it is about. Work that is
    the result of a round that the app has heard of is there already.
    """
    manifest = _read_manifest(left)
    is_new = manifest is not None and manifest.round > sandbox.manifest_round
    known = manifest.bundle_sha256 if manifest is not None and not is_new else None
    is_known = known is not None and left.checkpoint is not None and _digest_of(left.checkpoint) == known
    chosen = [
        (ArtifactName.TRANSCRIPT, left.transcript),
        (ArtifactName.CHECKPOINT, None if is_known else left.checkpoint),
        *(_round(left, manifest) if manifest is not None and is_new else ()),
    ]
    return [(name, path) for name, path in chosen if path is not None]


def _read_manifest(left: Left) -> Manifest | None:
    if left.manifest is None:
        return None
    try:
        return Manifest.model_validate_json(left.manifest.read_bytes())
    except ValidationError:
        return None


def _round(left: Left, manifest: Manifest) -> list[tuple[ArtifactName, Path | None]]:
    """As far as it was whole in the sandbox."""
    digest = manifest.bundle_sha256
    if digest is None:
        return [(ArtifactName.MANIFEST, left.manifest)]
    if left.result is None or _digest_of(left.result) != digest:
        return []
    return [(ArtifactName.RESULT, left.result), (ArtifactName.MANIFEST, left.manifest)]


async def _hand_in_one(parts: Parts, app: OnBehalf, sandbox: Sandbox, name: ArtifactName, path: Path) -> bool:
    """True when the app has it."""
    digest, size = await asyncio.to_thread(lambda: (_digest_of(path), path.stat().st_size))
    async with parts.db.read() as session:
        known = await find_artifact(session, sandbox.id, name.value)
    if known is not None and known.sha256 == digest:
        return True
    return await app.put_artifact(name.value, path, digest, size)


def _digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
