"""The operator's view of sandboxes: what they are, what they reported, and a word to their agents."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from pydantic import AwareDatetime

from app.db.events import EventFilter, Stretch, list_stretch
from app.db.messages import NewMessage, record_message
from app.db.models import Event, Sandbox
from app.db.operator_views import (
    SandboxRow,
    count_sandboxes,
    find_sandbox_row,
    list_live_sandboxes,
)
from app.domain.ids import SandboxId
from app.domain.states import SandboxState
from app.observability.crashpoints import crashpoint
from app.web.body import JsonBody, json_body
from app.web.event_intake import storable
from app.web.event_pages import WantedEvents, await_page, make_whole
from app.web.interventions import put_in, read_interventions
from app.web.operator_auth import (
    OPERATOR_PROBLEMS,
    Cursor,
    IdPath,
    Limit,
    clean_id,
    place_of,
    require_operator,
    unknown,
)
from app.web.operator_models import (
    EventItem,
    HeartbeatRun,
    MessageAsk,
    MessageReceipt,
    Page,
    SandboxHealth,
    SandboxItem,
    SandboxView,
    SilentSandbox,
    Trajectory,
)
from app.web.operator_reads import read_sandbox, read_sandboxes
from app.web.parts import Parts, PartsOf
from app.web.problems import Problem, problems
from sandbox_payload.wire import MAX_WAIT_S

router = APIRouter(
    prefix="/api/v1/sandboxes",
    tags=["operator"],
    dependencies=[Depends(require_operator)],
    responses=OPERATOR_PROBLEMS,
)

_SILENT_AFTER = timedelta(minutes=2)


@router.get("/health")
async def sandbox_health(parts: PartsOf) -> SandboxHealth:
    async with parts.database.read() as session:
        counts = await count_sandboxes(session)
        live = await list_live_sandboxes(session)
    now = parts.clock()
    silent = [
        one
        for one in live
        if one.state in (SandboxState.RUNNING, SandboxState.COMPLETING)
        and now - _heard_at(one) > _SILENT_AFTER
    ]
    return SandboxHealth(
        live=len(live),
        working=sum(one.activity == "working" for one in live),
        waiting=sum(one.activity == "waiting" for one in live),
        by_state={state: counts.get(state, 0) for state in SandboxState},
        silent=[
            SilentSandbox(id=one.id, spec_id=one.spec_id, state=one.state, heard_at=one.last_heartbeat_at)
            for one in silent
        ],
    )


def _heard_at(sandbox: Sandbox) -> AwareDatetime:
    return sandbox.last_heartbeat_at or sandbox.started_at or sandbox.created_at


@router.get("")
async def list_sandboxes(parts: PartsOf, limit: Limit = 50, cursor: Cursor = None) -> Page[SandboxItem]:
    return await read_sandboxes(parts.database, place_of(cursor), limit)


@router.get("/{sandbox_id}")
async def show_sandbox(sandbox_id: IdPath, parts: PartsOf) -> SandboxView:
    found = await read_sandbox(parts.database, clean_id(sandbox_id, "sandbox"))
    if found is None:
        raise unknown("sandbox")
    return found


async def _get_row(parts: Parts, sandbox_id: str) -> SandboxRow:
    async with parts.database.read() as session:
        row = await find_sandbox_row(session, clean_id(sandbox_id, "sandbox"))
    if row is None:
        raise unknown("sandbox")
    return row


@router.get("/{sandbox_id}/events")
async def show_events(
    request: Request,
    sandbox_id: IdPath,
    parts: PartsOf,
    wanted: WantedEvents,
    limit: Limit = 50,
    wait: Annotated[float, Query(ge=0, le=MAX_WAIT_S, description="Seconds to wait for one.")] = 0,
    full: Annotated[bool, Query(description="Diffs whole, however long they are.")] = False,
) -> Page[EventItem]:
    """Oldest first. With `wait`, `next_cursor` is never null: it leads on to what has not happened yet."""
    row = await _get_row(parts, sandbox_id)
    page = await await_page(request, parts, SandboxId(row.sandbox.id), wanted, limit, wait)
    if full:
        await make_whole(parts, sandbox_id, page.items)
    return Page(items=page.items, next_cursor=page.following if wait > 0 or not page.is_last else None)


@router.get("/{sandbox_id}/trajectory")
async def show_trajectory(
    sandbox_id: IdPath,
    parts: PartsOf,
    limit: Limit = 50,
    cursor: Annotated[str | None, Query(pattern="^[0-9]{1,16}$")] = None,
) -> Trajectory:
    """Events, oldest first, with runs of heartbeats folded into one item each."""
    await _get_row(parts, sandbox_id)
    after = min(int(cursor or 0), 2**53)
    async with parts.database.read() as session:
        stretch = await list_stretch(session, SandboxId(sandbox_id), after, limit)
    wanted, items, seqs = EventFilter(after=after), list[HeartbeatRun | EventItem](), list[int]()
    is_last = stretch.end is None
    for seq, one in _in_order(stretch):
        if not _fold(items, one, limit):
            is_last = False
            break
        seqs += [seq] * (len(items) - len(seqs))
        after = seq
    done = await read_interventions(parts.database, sandbox_id, wanted, None if is_last else after)
    return Trajectory(items=put_in(items, seqs, done), next_cursor=None if is_last else str(after))


def _in_order(stretch: Stretch) -> list[tuple[int, Event | datetime]]:
    """Events and times of heartbeats by their numbers."""
    merged: list[tuple[int, Event | datetime]] = [(event.seq, event) for event in stretch.others]
    merged += stretch.beats
    return sorted(merged, key=lambda one: one[0])


def _fold(items: list[HeartbeatRun | EventItem], one: Event | datetime, limit: int) -> bool:
    """Adds an event, or a heartbeat by its time; False when there is no room for it."""
    last = items[-1] if items else None
    if isinstance(one, datetime) and isinstance(last, HeartbeatRun):
        last.count += 1
        last.last_at = one
        return True
    if len(items) >= limit:
        return False
    if isinstance(one, datetime):
        items.append(HeartbeatRun(count=1, first_at=one, last_at=one))
    else:
        items.append(EventItem.of(one))
    return True


@router.post(
    "/{sandbox_id}/messages",
    status_code=201,
    responses=problems(400, 408, 409, 413),
    openapi_extra=json_body(MessageAsk.model_json_schema()),
)
async def send_message(
    sandbox_id: IdPath, parts: PartsOf, ask: Annotated[MessageAsk, Depends(JsonBody(MessageAsk))]
) -> MessageReceipt:
    """Queues a text for a live sandbox's agent and wakes its poll. 409 when the sandbox has ended."""
    row = await _get_row(parts, sandbox_id)
    message = NewMessage(ask.message_type.value, storable(ask.content))
    crashpoint("message.before")
    async with parts.database.write() as session:
        stored = await record_message(session, SandboxId(row.sandbox.id), message, parts.clock())
    crashpoint("message.after")
    if stored is None:
        raise Problem(409, "the sandbox has ended")
    parts.metrics.messages.labels("queued").inc()
    parts.spawn(parts.bell.ring(row.sandbox.id))
    return MessageReceipt(id=str(stored.id), seq=stored.seq, state=stored.state)
