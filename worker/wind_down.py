"""One-machine stop: sandboxes wrap up and hand over what they have, so that nothing runs on and nothing is lost."""

from __future__ import annotations

import asyncio

import structlog

from app.db.sandboxes import list_not_removed
from app.domain.errors import OutsideError
from app.domain.ports import SandboxStatus
from app.domain.states import SANDBOX_LIVE
from worker.parts import Parts

log = structlog.get_logger("worker.wind_down")

GRACE_S = 20.0
PAUSE_S = 1.0


async def wind_down(parts: Parts) -> None:
    """Stop this host's sandboxes within their grace. The web process still takes their checkpoints; the specs go on
    from there at the next start.
    """
    async with parts.db.read() as session:
        rows = await list_not_removed(session, parts.local_host)
    names = [row.provider_name for row in rows if row.state in SANDBOX_LIVE]
    if not names:
        return
    log.info("sandboxes.stopping", count=len(names))
    # Side by side: one that does not answer keeps no other from being told.
    await asyncio.gather(*(_stop(parts, name) for name in names))
    for _ in range(int(GRACE_S + 5)):
        alive = await asyncio.gather(*(_may_run(parts, name) for name in names))
        if not any(alive):
            return
        await asyncio.sleep(PAUSE_S)


async def _stop(parts: Parts, name: str) -> None:
    try:
        await parts.sandboxes.ensure_stopped(name, GRACE_S)
    except OutsideError as error:
        log.warning("sandbox.stop_failed", name=name, error=str(error)[:300])


async def _may_run(parts: Parts, name: str) -> bool:
    """Also when nobody can say."""
    try:
        sight = await parts.sandboxes.fetch_sight(name)
    except OutsideError:
        return True
    return sight.status in {SandboxStatus.RUNNING, SandboxStatus.CREATING}
