"""Grouped commits of events: what many sandboxes report at the same moment shares a transaction, since on SQLite one
each (a flush to the disk and a dozen hops to a thread) does not keep up with two hundred of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError

from app.db.engine import PlainSession
from app.db.events import NewEvent, Reported, record_reported
from app.db.models import Sandbox
from app.db.relay import find_relayed
from app.db.sandbox_access import SandboxIdentity, lock_all_live
from app.db.specs import bump_version
from app.domain.ids import SandboxId, SpecId
from app.observability.crashpoints import crashpoint
from app.observability.logging import get_logger
from app.queue.jobs import JobName
from app.web.event_flood import Sifted, sift
from app.web.event_intake import WEIGHTY, note_progress, note_reported_spending, reported_usd

if TYPE_CHECKING:
    from app.web.parts import Parts

log = get_logger()

_GATHER_S = 0.03
"""While many report, a commit waits so long for others: nobody acts on an acknowledgement."""
_GROUP_POSTS = 64
_GROUP_EVENTS = 500
"""Of several sandboxes together; one alone may bring more."""


@dataclass
class _Post:
    sandbox: SandboxIdentity
    events: Sequence[NewEvent]
    stored: asyncio.Future[int | None]

    @property
    def weighty(self) -> bool:
        return any(event.event_type in WEIGHTY for event in self.events)


@dataclass
class _Outcome:
    """Of one post: what to answer and what to count."""

    last_seq: int
    fresh: int
    passed_over: int
    flooding: bool
    version: int | None


class EventCommits:
    """`record` returns when the events of one request are durable."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._waiting: list[_Post] = []
        self._running = False

    async def record(self, sandbox: SandboxIdentity, events: Sequence[NewEvent]) -> int | None:
        """The highest number that is stored without a gap before it; None when the sandbox has ended.

        All events or none are stored. Raises SQLAlchemyError, OSError or TimeoutError.
        """
        post = _Post(sandbox, events, asyncio.get_running_loop().create_future())
        self._waiting.append(post)
        if not self._running:
            self._running = True
            self._parts.spawn(self._commit_all())
        return await post.stored

    async def _commit_all(self) -> None:
        many = False
        try:
            while self._waiting:
                if many and not any(post.weighty for post in self._waiting):
                    await asyncio.sleep(_GATHER_S)
                group = self._next_group()
                await self._settle(group)
                many = len(group) > 1 or len(self._waiting) > 1
        finally:
            self._running = False
            left, self._waiting = self._waiting, []
            _fail(left, RuntimeError("the events were not stored"))  # cancelled: nobody commits them any more

    def _next_group(self) -> list[_Post]:
        """In the order of arrival, each sandbox once. What a worker is to hear of goes alone: it changes the spec, too,
        and two rows of each kind at once is where two processes could wait for one another.
        """
        group: list[_Post] = []
        left: list[_Post] = []
        taken: set[SandboxId] = set()
        size, full = 0, False
        for post in self._waiting:
            size += len(post.events)
            alone = bool(group) and (post.weighty or group[0].weighty)
            full = full or (bool(group) and (len(group) == _GROUP_POSTS or size > _GROUP_EVENTS))
            if full or alone or post.sandbox.id in taken:
                left.append(post)
            else:
                group.append(post)
            taken.add(post.sandbox.id)  # a later post of the same sandbox must not overtake
        self._waiting = left
        return group

    async def _settle(self, group: Sequence[_Post]) -> None:
        try:
            outcomes = await self._commit(group)
        except DBAPIError as error:
            if len(group) > 1 and not isinstance(error, OperationalError | InterfaceError):
                for post in group:  # the fault of one must not be the others'
                    await self._settle([post])
                return
            _fail(group, error)
        except (SQLAlchemyError, OSError, TimeoutError) as error:
            _fail(group, error)
        else:
            for post in group:
                self._answer(post, outcomes.get(post.sandbox.id))
        finally:
            _fail(group, RuntimeError("the events were not stored"))  # whoever has no answer by now

    async def _commit(self, group: Sequence[_Post]) -> dict[SandboxId, _Outcome]:
        now, limit = self._parts.clock(), self._parts.limits.events_per_sandbox
        crashpoint("events.before")
        outcomes = await self._parts.database.transact_rows(partial(_store, group, now, limit))
        crashpoint("events.after")
        return outcomes

    def _answer(self, post: _Post, outcome: _Outcome | None) -> None:
        if not post.stored.done():
            post.stored.set_result(outcome.last_seq if outcome is not None else None)
        if outcome is None:
            return
        parts = self._parts
        if outcome.flooding:
            limit = parts.limits.events_per_sandbox
            log.warning("sandbox.flooded", sandbox_id=post.sandbox.id, limit=limit)
        parts.metrics.events.labels("new").inc(outcome.fresh)
        parts.metrics.events.labels("passed_over").inc(outcome.passed_over)
        repeated = len(post.events) - outcome.fresh - outcome.passed_over
        parts.metrics.events.labels("repeated").inc(repeated)
        if outcome.version is not None:
            parts.spawn(self._ring(post.sandbox.spec_id, outcome.version))

    async def _ring(self, spec_id: SpecId, version: int) -> None:
        await self._parts.doorbell.ring(JobName.ADVANCE, spec_id, version)


def _store(
    group: Sequence[_Post], now: datetime, limit: int, session: PlainSession
) -> dict[SandboxId, _Outcome]:
    """The transaction, in a thread of its own where the database is a file. Posts of ended sandboxes are left out."""
    rows = lock_all_live(session, [post.sandbox.id for post in group])
    posts = [post for post in group if post.sandbox.id in rows]
    before = {box: (row.last_seq, row.events_passed_over) for box, row in rows.items()}
    sifted = {post.sandbox.id: sift(post.events, rows[post.sandbox.id], limit) for post in posts}
    reported = [Reported(rows[box], one.kept, one.passed_seqs) for box, one in sifted.items()]
    fresh = record_reported(session, reported, now)
    heard = {box: _heard(fresh[box], one, before[box][0]) for box, one in sifted.items()}
    _note_spending(session, rows, heard, now)
    outcomes = {}
    for post in posts:
        box, row = post.sandbox.id, rows[post.sandbox.id]
        _, flooded = before[box]
        note_progress(row, heard[box], now)
        weighty = any(event.event_type in WEIGHTY for event in fresh[box])
        version = bump_version(session, post.sandbox.spec_id, now) if weighty else None
        flooding = bool(row.events_passed_over and not flooded)
        outcomes[box] = _Outcome(
            row.last_seq, len(fresh[box]), len(sifted[box].passed_over), flooding, version
        )
    return outcomes


def _note_spending(
    session: PlainSession,
    rows: Mapping[str, Sandbox],
    heard: Mapping[SandboxId, Sequence[NewEvent]],
    now: datetime,
) -> None:
    """Only where the gateway can't count: of sandboxes that can't reach it."""
    spent: dict[str, float] = {box: usd for box, events in heard.items() if (usd := reported_usd(events))}
    for box in find_relayed(session, spent):
        note_reported_spending(rows[box], spent[box], now)


def _heard(fresh: Sequence[NewEvent], sifted: Sifted, known_seq: int) -> list[NewEvent]:
    """What is new, stored or not, by number."""
    heard = [*fresh, *(event for event in sifted.passed_over if event.seq > known_seq)]
    return sorted(heard, key=lambda event: event.seq)


def _fail(group: Sequence[_Post], error: Exception) -> None:
    for post in group:
        if not post.stored.done():
            post.stored.set_exception(error)
