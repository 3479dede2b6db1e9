"""Sandboxes and rows that belong to nothing any more: found from both sides, taken down, never someone else's."""

from __future__ import annotations

from datetime import timedelta

import structlog

from app.db.sandboxes import list_known_names
from worker.parts import Parts

log = structlog.get_logger("worker.orphans")

YOUNG = timedelta(minutes=3)
"""A sandbox without a row may be one whose row is not committed yet."""


async def remove_orphans(parts: Parts) -> int:
    """Remove what this instance's provider still has and the database does not know. Returns how many."""
    sights = await parts.sandboxes.list_owned()
    async with parts.db.read() as session:
        rows = await list_known_names(session, [sight.name for sight in sights])
    removed = 0
    for sight in sights:
        young = sight.started_at is not None and parts.clock() - sight.started_at < YOUNG
        if sight.name in rows or young or not sight.name.startswith(f"iw-{parts.instance}-"):
            continue
        log.warning("sandbox.orphan_removed", sandbox_id=sight.labels.get("sandbox"), name=sight.name)
        await parts.sandboxes.ensure_deleted(sight.name)
        removed += 1
    return removed
