"""Pages of a sandbox's events, each intervention before the event it stands before, and waiting for the next of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Query, Request
from pydantic import AwareDatetime
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.event_texts import list_texts
from app.db.events import EventFilter, list_events
from app.db.guardian import list_interventions_between
from app.db.models import Event, Intervention
from app.domain.ids import SandboxId
from app.web.interventions import as_event, is_wanted, put_in
from app.web.operator_auth import bad_cursor
from app.web.operator_models import EventItem
from app.web.parts import Parts
from app.web.problems import Problem

_FULL_BYTES = 10_000_000
"""Of whole texts in one page."""
_LOOK_S = 0.5


@dataclass(frozen=True)
class Wanted:
    """Which events, and how many interventions before the next one of all (`filter.after` + 1) the reader has had."""

    filter: EventFilter
    passed: int = 0


@dataclass(frozen=True)
class EventPage:
    """`following` leads on to what has not happened yet; `is_last`: nothing more is there now."""

    items: list[EventItem]
    following: str
    is_last: bool


def wanted_events(
    cursor: Annotated[
        str | None,
        Query(
            pattern=r"^[0-9]{1,16}(\.[0-9]{1,4})?$",
            description="Events after this one; after a dot, how many interventions that follow it are passed over.",
        ),
    ] = None,
    event_type: Annotated[list[str] | None, Query(max_length=50)] = None,
    since: AwareDatetime | None = None,
    until: AwareDatetime | None = None,
) -> Wanted:
    """Raises Problem 422."""
    if any(time is not None and not 1970 < time.year < 9000 for time in (since, until)):
        raise Problem(422, "`since` and `until` must be real times")
    if any("\x00" in name or len(name) > 100 for name in event_type or ()):
        raise Problem(422, "`event_type` is not a name of events")
    after, _, passed = (cursor or "0").partition(".")
    if int(after) > 2**53:
        raise bad_cursor()
    return Wanted(
        EventFilter(after=int(after), event_types=tuple(event_type or ()), since=since, until=until),
        int(passed or 0),
    )


WantedEvents = Annotated[Wanted, Depends(wanted_events)]


async def await_page(
    request: Request, parts: Parts, sandbox_id: SandboxId, wanted: Wanted, limit: int, wait_s: float
) -> EventPage:
    """At once when there is something; an empty one after `wait_s`, or when the process stops."""
    loop = asyncio.get_running_loop()
    until = loop.time() + wait_s
    while True:
        async with parts.database.read() as session:
            page = await _read_page(session, sandbox_id, wanted, limit)
        left_s = until - loop.time()
        if page.items or left_s <= 0 or parts.closing.is_set() or await request.is_disconnected():
            return page
        closing = asyncio.ensure_future(parts.closing.wait())
        await asyncio.wait({closing}, timeout=min(_LOOK_S, left_s))
        closing.cancel()


async def make_whole(parts: Parts, sandbox_id: str, items: Sequence[EventItem]) -> None:
    """Puts whole texts where they were cut, as far as a page may grow."""
    own = [item for item in items if item.source != "system"]
    async with parts.database.read() as session:
        texts = await list_texts(session, sandbox_id, [item.seq for item in own], _FULL_BYTES)
    for item in own:
        item.event_data |= texts.get(item.seq, {})


async def _read_page(session: AsyncSession, sandbox_id: SandboxId, wanted: Wanted, limit: int) -> EventPage:
    after = wanted.filter.after
    # First: whatever was reported before one of these is among the events, also where each statement sees anew.
    there = await list_interventions_between(session, sandbox_id, after, None)
    found = await list_events(session, sandbox_id, wanted.filter, limit + 1)
    events, is_last = found[:limit], len(found) <= limit
    position = events[-1].seq if events else after
    # Again: one of these may have come in between, with events after it.
    done = list(await list_interventions_between(session, sandbox_id, after, position))
    following = str(position)
    if is_last:
        left = [row for row in there if row.at_seq > position]
        done += left
        following = _behind(left) or following
    return EventPage(_in_order(events, _not_passed(done, wanted), wanted), following, is_last)


def _behind(left: Sequence[Intervention]) -> str | None:
    """Behind the last of them, and after every event that was reported before it."""
    if not left:
        return None
    at_seq = left[-1].at_seq
    return f"{at_seq - 1}.{sum(row.at_seq == at_seq for row in left)}"


def _not_passed(rows: Sequence[Intervention], wanted: Wanted) -> list[Intervention]:
    here = [row for row in rows if row.at_seq == wanted.filter.after + 1]
    return [*here[wanted.passed :], *rows[len(here) :]]


def _in_order(events: Sequence[Event], done: Sequence[Intervention], wanted: Wanted) -> list[EventItem]:
    added = [as_event(row) for row in done if is_wanted(row, wanted.filter)]
    return put_in([EventItem.of(event) for event in events], [event.seq for event in events], added)
