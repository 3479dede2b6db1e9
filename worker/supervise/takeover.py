"""A killed worker costs a second, not a lease: its successor on the same machine sees that the process is gone."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import structlog

from app.db.takeover import list_holders, release_holder
from worker.parts import Parts

log = structlog.get_logger("worker.takeover")


def make_worker_id(host_id: str) -> str:
    """`PLACE-PID-RANDOM`, where PLACE is this host and this process-id namespace: only there the pid means anything."""
    return f"{_place(host_id)}-{os.getpid()}-{secrets.token_hex(4)}"


def _place(host_id: str) -> str:
    try:
        namespace = str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        namespace = "0"
    return f"{host_id[:12]}.{namespace}"


async def release_dead_holders(parts: Parts) -> list[str]:
    """Returns the ids of the dead workers of this place whose leases were ended. Others' leases lapse by themselves."""
    now = parts.clock()
    async with parts.db.read() as session:
        holders = await list_holders(session, now)
    dead = [owner for owner in holders if _is_dead(owner, _place(parts.host_id))]
    for owner in dead:
        async with parts.db.write() as session:
            await release_holder(session, owner, now)
        log.warning("lease.taken_over", owner=owner)
    return dead


def _is_dead(owner: str, place: str) -> bool:
    its_place, _, rest = owner.rpartition("-")[0].rpartition("-")
    if its_place != place or not rest.isdigit():
        return False
    try:
        os.kill(int(rest), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
