"""One round over all live sandboxes: the database's rows against the provider's own list.

A round only notes what is wrong and wakes the spec: what had been done is saved, and the sandbox stopped and replaced,
by a step under the spec's lease (`worker.flow.watch`, `worker.flow.lost`). What nobody waits for any more is removed here.
Nothing is remembered between rounds, so any worker may make the next one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from app.db.locks import passing_owner
from app.db.supervision import (
    Known,
    Left,
    claim_round,
    get_known,
    list_listeners,
    record_removed,
    record_troubles,
)
from app.domain.errors import OutsideError
from app.domain.ports import SandboxSight, SandboxStatus
from app.domain.supervision import Observation, Trouble, Watched, decide_observation, decide_trouble
from worker.parts import Parts
from worker.supervise.orphans import remove_orphans

log = structlog.get_logger("worker.supervise")

EVERY = timedelta(seconds=12)
PAUSE = timedelta(seconds=60)
"""A longer one between two rounds: until now nobody watched, so nothing before counts as silence."""
SETTLED = timedelta(seconds=60)
"""What has changed more recently may not show in the provider's list yet, or be in somebody's hands."""
MAX_REMOVED = 20
"""In one round; the next goes on."""
MAX_SHOWN = 20
"""Ids in one line of the log."""


@dataclass(frozen=True)
class Seen:
    """What a round came to: sandboxes watched, troubles noted, sandboxes removed that nobody waits for."""

    watched: int = 0
    troubles: int = 0
    removed: int = 0


class SandboxRounds:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def look(self) -> Seen | None:
        """One round, in one worker at a time and at most every twelve seconds: else None.

        A provider that can't be asked does not keep the database's facts from being judged.
        """
        parts, now = self._parts, self._parts.clock()
        place = parts.local_host or "remote"
        owner = passing_owner(parts.worker_id, now)
        async with parts.db.write() as session:
            since_at = await claim_round(session, f"sandboxes:{place}", owner, now, every=EVERY, pause=PAUSE)
        if since_at is None:
            return None
        sights = await self._list_sights()  # first: whatever is in it had its row before
        async with parts.db.read() as session:
            known = await get_known(session, parts.local_host)
            listeners = await list_listeners(session)
        seen = decide_observation(parts.clock(), since_at, listeners)
        noted = await self._note(self._judge(known, sights, seen))
        removed = 0
        if sights is not None:
            removed = await self._remove(known, sights, now)
            removed += await remove_orphans(parts, list(sights.values()), known.names)
        return Seen(len(known.watched) + known.found, noted, removed)

    async def _list_sights(self) -> Mapping[str, SandboxSight] | None:
        try:
            return {sight.name: sight for sight in await self._parts.sandboxes.list_owned()}
        except OutsideError as error:
            log.warning("sandboxes.not_listed", error=str(error)[:300])
            return None

    def _judge(
        self, known: Known, sights: Mapping[str, SandboxSight] | None, seen: Observation
    ) -> Mapping[Trouble, list[Watched]]:
        found: dict[Trouble, list[Watched]] = defaultdict(list)
        limits = self._parts.limits.thresholds
        for one in known.watched:
            trouble = decide_trouble(one, _status(one, sights, seen.now), seen, limits)
            if trouble is not None:
                found[trouble].append(one)
        return found

    async def _note(self, found: Mapping[Trouble, list[Watched]]) -> int:
        if not found:
            return 0
        for trouble, boxes in found.items():
            shown = [one.sandbox_id for one in boxes[:MAX_SHOWN]]
            log.warning("sandboxes.troubled", trouble=trouble.value, count=len(boxes), sandbox_ids=shown)
        async with self._parts.db.write() as session:
            return await record_troubles(session, found, self._parts.clock())

    async def _remove(self, known: Known, sights: Mapping[str, SandboxSight], now: datetime) -> int:
        """Of ended rows, and of live ones whose spec has ended: what the provider still has goes."""
        settled = [one for one in known.left if one.ended_at is None or now - one.ended_at > SETTLED]
        there = [one for one in settled if one.name in sights][:MAX_REMOVED]
        gone = [one.sandbox_id for one in settled if one.name not in sights]
        gone += [one.sandbox_id for one in there if await self._delete(one)]
        if gone:
            async with self._parts.db.write() as session:
                await record_removed(session, gone, self._parts.clock())
        return len(gone)

    async def _delete(self, one: Left) -> bool:
        try:
            await self._parts.sandboxes.ensure_deleted(one.name)
        except OutsideError as error:
            log.warning("sandbox.not_removed", sandbox_id=one.sandbox_id, error=str(error)[:300])
            return False
        log.info("sandbox.removed", sandbox_id=one.sandbox_id)
        return True


def _status(one: Watched, sights: Mapping[str, SandboxSight] | None, now: datetime) -> SandboxStatus | None:
    if sights is None:
        return None
    if one.name in sights:
        return sights[one.name].status
    # Made while the list was on its way, or not shown in it yet: the next round knows better.
    fresh = one.started_at is not None and now - one.started_at < SETTLED
    return None if fresh else SandboxStatus.ABSENT
