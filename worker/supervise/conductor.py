"""The conductor's looks: live specs side by side, and what people should know of that, told once each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog

from app.db.conductor import find_last_work, list_bodies, list_queued, list_side_by_side
from app.db.effects import record_notice
from app.db.locks import passing_owner
from app.db.supervision import claim_round
from app.domain.conductor import (
    Told,
    find_duplicates,
    find_namesakes,
    find_shared_files,
    find_standstill,
    render_told,
)
from worker.parts import Parts

log = structlog.get_logger("worker.conductor")

EVERY = timedelta(seconds=60)
PAUSE = timedelta(minutes=5)
"""A longer one between two looks: until now no worker was there, so nothing before counts as standing still."""


class Conductor:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def look(self) -> Sequence[Told] | None:
        """What was told for the first time; None when it is not time yet, or another worker's turn."""
        parts, now = self._parts, self._parts.clock()
        owner = passing_owner(parts.worker_id, now)
        async with parts.db.write() as session:
            since_at = await claim_round(session, "conductor", owner, now, every=EVERY, pause=PAUSE)
        if since_at is None:
            return None
        found = await self._find(since_at)
        new: list[Told] = []
        if found:
            async with parts.db.write() as session:
                for told in found:
                    repo, number = (told.spec.installation_id, told.spec.repo_id), told.spec.issue_number
                    if await record_notice(session, repo, number, told.key, render_told(told), now):
                        new.append(told)
        for told in new:
            log.info(
                "specs.compared", link=told.link.value, spec_id=told.spec.spec_id, repo_id=told.spec.repo_id
            )
        return new

    async def _find(self, since_at: datetime) -> list[Told]:
        async with self._parts.db.read() as session:
            specs = await list_side_by_side(session)
            bodies = await list_bodies(session, find_namesakes(specs))
            queue = await list_queued(session)
            worked_at = await find_last_work(session) if queue else None
        standing = find_standstill(queue, worked_at, since_at, self._parts.clock())
        return [*find_duplicates(specs, bodies), *find_shared_files(specs), *standing]
