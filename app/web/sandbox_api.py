"""What a sandbox may say and ask: its events and its messages. Everything is data of a stranger."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ValidationError
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.routing import Route

from app.db.effects import record_reaction
from app.db.messages import find_highest_seq_if_live, list_messages, record_acknowledged, record_sent
from app.db.models import Message as MessageRow
from app.db.reviews import owe_receipts
from app.db.sandbox_access import SandboxIdentity, lock_live
from app.db.specs import find_spec
from app.domain.ids import EffectId
from app.domain.replies import ROCKET
from app.domain.states import MessageState
from app.observability.crashpoints import crashpoint
from app.observability.logging import get_logger
from app.queue.jobs import JobName
from app.web.body import json_body, read_or_problem
from app.web.event_intake import parse_events
from app.web.parts import Parts, PartsOf, parts_of
from app.web.problems import Problem, invalid, problems
from app.web.sandbox_auth import ReportingSandboxOf, SandboxOf, ended, reporting_sandbox_of, throttled
from sandbox_payload.wire import MAX_EVENTS_BYTES, MAX_WAIT_S, Event, EventsReceipt, Message, MessagesPage

log = get_logger()
router = APIRouter(
    prefix="/api/v1/sandboxes/{sandbox_id}", tags=["sandbox"], responses=problems(401, 403, 503)
)

_PAGE = 100
_MIN_LOOK_S = 0.02

_EVENT_SCHEMA = Event.model_json_schema()
_EVENTS_SCHEMA: dict[str, Any] = {
    "oneOf": [
        _EVENT_SCHEMA,
        {
            "type": "object",
            "required": ["events"],
            "properties": {"events": {"type": "array", "maxItems": 1000, "items": _EVENT_SCHEMA}},
        },
    ]
}


@router.post("/events", responses=problems(400, 408, 413, 422, 429), openapi_extra=json_body(_EVENTS_SCHEMA))
async def post_events(request: Request, sandbox: ReportingSandboxOf, parts: PartsOf) -> EventsReceipt:
    """Stores all of them or none; answers after the commit. `last_seq` is the highest number without a gap before."""
    body = await read_or_problem(request, MAX_EVENTS_BYTES, parts.limits.body_s)
    try:
        events = parse_events(body, parts.clock())
    except ValidationError as error:
        raise invalid(error) from None
    except (ValueError, OverflowError):
        raise Problem(422, "the body is not JSON") from None
    wait_s = parts.event_count.wait_s(sandbox.id, len(events)) or parts.event_bytes.wait_s(
        sandbox.id, len(body)
    )
    if wait_s:
        raise throttled(parts, "events", wait_s)
    last_seq = await parts.event_commits.record(sandbox, events)
    if last_seq is None:
        raise ended()
    return EventsReceipt(last_seq=last_seq)


async def receive_events(request: Request) -> Response:
    """`post_events` as a plain route, for the request that comes more often than all others together: what FastAPI does
    around a function takes longer than the function.
    """
    parts = await parts_of(request)
    sandbox = await reporting_sandbox_of(request, request.path_params["sandbox_id"], parts, None)
    receipt = await post_events(request, sandbox, parts)
    return Response(receipt.model_dump_json(), media_type="application/json")


EVENTS_ROUTE = Route(f"{router.prefix}/events", receive_events, methods=["POST"], include_in_schema=False)
"""Comes before the router, which describes it."""


@router.get("/messages", responses=problems(422, 429))
async def get_messages(
    request: Request,
    sandbox: SandboxOf,
    parts: PartsOf,
    after: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    wait: Annotated[float, Query(ge=0, le=MAX_WAIT_S, description="Seconds to wait for one.")] = 0,
) -> MessagesPage:
    """Messages numbered above `after`. Reading takes nothing away; what is returned counts as sent."""
    with parts.polls.taken(sandbox.id) as room:
        if not room:
            raise throttled(parts, "polls", 1)
        until = asyncio.get_running_loop().time() + wait
        while True:
            mark = parts.bell.mark()
            page = await _look(parts, sandbox, after)
            left_s = until - asyncio.get_running_loop().time()
            if page.messages or left_s <= 0 or parts.closing.is_set() or await request.is_disconnected():
                return page
            await _await_bell(parts, sandbox.id, min(left_s, parts.limits.look_every_s), mark)


async def _look(parts: Parts, sandbox: SandboxIdentity, after: int) -> MessagesPage:
    """Looks first whether it needs the database's only writing place: a bell also rings when it has come back."""
    async with parts.database.look() as session:
        # The number first: whatever comes between the two is in the list, and no number passes over it.
        highest = await find_highest_seq_if_live(session, sandbox.id)
        if highest is None:
            raise ended()
        rows = await list_messages(session, sandbox.id, after, _PAGE)
    if any(row.state is MessageState.QUEUED for row in rows):
        rows = await _send(parts, sandbox, after)
    return MessagesPage(
        messages=[_message(row) for row in rows], last_seq=rows[-1].seq if rows else max(after, highest)
    )


async def _send(parts: Parts, sandbox: SandboxIdentity, after: int) -> Sequence[MessageRow]:
    """What is there above `after` now, all of it on record as sent."""
    crashpoint("sent.before")
    async with parts.database.write() as session:
        if await lock_live(session, sandbox.id) is None:
            raise ended()
        # Locked: one that is cancelled or replaced in between must not reach the agent as it was.
        rows = await list_messages(session, sandbox.id, after, _PAGE, lock=True)
        queued = [row.id for row in rows if row.state is MessageState.QUEUED]
        if queued:
            await record_sent(session, queued, parts.clock())
    crashpoint("sent.after")
    if queued:
        parts.metrics.messages.labels("sent").inc(len(queued))
    return rows


def _message(row: MessageRow) -> Message:
    return Message(
        id=str(row.id),
        seq=row.seq,
        message_type=row.message_type,
        content=row.content,
        created_at=row.created_at,
    )


async def _await_bell(parts: Parts, sandbox_id: str, limit_s: float, mark: int) -> None:
    """Returns when the bell rings, the process stops or `limit_s` is over, never sooner than a moment."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    bell = asyncio.ensure_future(parts.bell.wait(sandbox_id, limit_s, mark))
    closing = asyncio.ensure_future(parts.closing.wait())
    try:
        await asyncio.wait({bell, closing}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        # A bell that gives up at once (Redis away) must not turn the poll into a busy loop.
        rang = bell.done() and not bell.cancelled() and bell.result()
        rest_s = (_MIN_LOOK_S if rang else limit_s) - (loop.time() - began)
        if rest_s > 0 and not closing.done():
            await asyncio.wait({closing}, timeout=rest_s)
    finally:
        bell.cancel()
        closing.cancel()
        await asyncio.gather(bell, closing, return_exceptions=True)


class AckReceipt(BaseModel):
    id: uuid.UUID
    state: MessageState


@router.post("/messages/{message_id}/ack", responses=problems(404, 409, 422))
async def acknowledge_message(message_id: uuid.UUID, sandbox: SandboxOf, parts: PartsOf) -> AckReceipt:
    """The agent has taken it in. Saying so twice gives the same answer."""
    crashpoint("acknowledged.before")
    async with parts.database.write() as session:
        row = await record_acknowledged(session, sandbox.id, message_id, parts.clock())
        reaction = await _owe_receipt(session, sandbox, row, parts.clock())
    crashpoint("acknowledged.after")
    if row is None:
        raise Problem(404, "this sandbox has no such message")
    if row.sent_at is None:
        raise Problem(409, "this message was never sent")
    parts.metrics.messages.labels("acknowledged").inc()
    if reaction is not None:
        parts.spawn(parts.doorbell.ring(JobName.PERFORM, reaction))
    return AckReceipt(id=row.id, state=row.state)


async def _owe_receipt(
    session: AsyncSession, sandbox: SandboxIdentity, row: MessageRow | None, now: datetime
) -> EffectId | None:
    """People see on their comment that the agent has taken it in. A worker writes it; None when it is owed already."""
    if row is None or row.state is not MessageState.ACKNOWLEDGED:
        return None
    spec = await find_spec(session, sandbox.spec_id)
    if spec is None:
        return None
    if row.comment_id is None:
        return await owe_receipts(session, (spec.installation_id, spec.repo_id), row.id, ROCKET, now)
    return await record_reaction(session, (spec.installation_id, spec.repo_id), row.comment_id, ROCKET, now)
