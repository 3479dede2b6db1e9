"""Sandboxes that have no row (any more): of a restored database, of a crashed run. Never someone else's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta

import structlog

from app.domain.errors import OutsideError
from app.domain.ports import SandboxSight
from worker.parts import Parts

log = structlog.get_logger("worker.orphans")

YOUNG = timedelta(minutes=3)
"""A sandbox without a row may be one whose row is not committed yet."""


async def remove_orphans(parts: Parts, sights: Sequence[SandboxSight], known: Collection[str]) -> int:
    """Remove what this instance's provider still has (`sights`) and no row stands for (`known`). Returns how many.

    Whose it is says its name, and where a provider keeps labels, its owner label too.
    """
    removed = 0
    for sight in sights:
        young = sight.started_at is not None and parts.clock() - sight.started_at < YOUNG
        if sight.name in known or young or not _is_ours(parts, sight):
            continue
        try:
            await parts.sandboxes.ensure_deleted(sight.name)
        except OutsideError as error:
            log.warning("sandbox.not_removed", name=sight.name, error=str(error)[:300])
            continue
        log.warning("sandbox.orphan_removed", sandbox_id=sight.labels.get("sandbox"), name=sight.name)
        removed += 1
    return removed


def _is_ours(parts: Parts, sight: SandboxSight) -> bool:
    owner = sight.labels.get("issuewright", parts.instance)
    return sight.name.startswith(f"iw-{parts.instance}-") and owner == parts.instance
