"""`POST /webhooks/github`: keeps what GitHub says, durably, and nothing else. Reading it comes later.

The order of the checks is the contract's: 413, 408, 401, 400, then 503.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel

from app.db.deliveries import NewDelivery
from app.domain.ids import DeliveryId
from app.observability.logging import get_logger
from app.web.body import Broken, TooLarge, TooSlow, body_problem, read_capped
from app.web.committer import Committer, NotStored
from app.web.parts import Parts, PartsOf
from app.web.problems import Problem, problems

log = get_logger()
router = APIRouter()

_GUID = re.compile(r"[A-Za-z0-9-]{1,64}")
_EVENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_KEPT_HEADERS = re.compile(r"x-github-[a-z-]{1,60}|user-agent|content-type")
_LONE_SURROGATE_HINT = re.compile(rb"\\u[dD][89a-fA-F]")
_BIG_BYTES = 500_000
"""Above this, hashing and parsing take longer than other requests should wait."""


class DeliveryReceipt(BaseModel):
    status: Literal["stored"] = "stored"
    delivery_id: str


@router.post(
    "/webhooks/github",
    status_code=202,
    responses=problems(400, 401, 408, 413, 503),
    openapi_extra={
        "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}},
        "security": [],
    },
)
async def receive_delivery(request: Request, parts: PartsOf) -> DeliveryReceipt:
    """Stores one delivery; 202 once it is durable, also for events that are ignored later and for repeated ones."""
    try:
        delivery = await _read_delivery(request, parts)
        await _committer(request, parts).record(delivery)
    except Problem as problem:
        _count(parts, str(problem.status))
        raise
    except NotStored:
        _count(parts, "503")
        raise Problem(
            503, "storage is unavailable; deliver it again", headers={"Retry-After": "10"}
        ) from None
    _count(parts, "stored")
    return DeliveryReceipt(delivery_id=delivery.id)


def _committer(request: Request, parts: Parts) -> Committer:
    state = request.app.state
    if not hasattr(state, "committer"):
        state.committer = Committer(parts)
    committer: Committer = state.committer
    return committer


def _count(parts: Parts, outcome: str) -> None:
    parts.metrics.deliveries.labels(outcome).inc()


async def _read_delivery(request: Request, parts: Parts) -> NewDelivery:
    """Raises Problem."""
    limits = parts.limits
    try:
        body = await read_capped(request, limits.webhook_bytes, limits.webhook_body_s)
    except (TooLarge, TooSlow, Broken) as error:
        raise body_problem(error, limits.webhook_bytes) from None
    headers = request.scope["headers"]
    signature = _first(headers, b"x-hub-signature-256")
    secrets = parts.settings.webhook_secrets
    if not await _for(body, is_signed, body, signature, secrets):
        raise Problem(401, "X-Hub-Signature-256 is missing or does not fit")
    event = _name(headers, b"x-github-event", _EVENT)
    guid = _name(headers, b"x-github-delivery", _GUID)
    content_type = (_first(headers, b"content-type") or b"application/json").split(b";")[0].strip().lower()
    if content_type != b"application/json":
        raise Problem(400, "the webhook's content type must be application/json")
    if not await _for(body, is_json_object, body):
        raise Problem(400, "the body is not a JSON object")
    return NewDelivery(
        id=DeliveryId(guid), event=event, headers=_kept(headers), body=body, received_at=parts.clock()
    )


async def _for(body: bytes, check: Any, *arguments: Any) -> bool:
    """Runs a check, in a thread when the body is big."""
    if len(body) > _BIG_BYTES:
        return bool(await asyncio.to_thread(check, *arguments))
    return bool(check(*arguments))


def is_signed(body: bytes, signature: bytes | None, secrets: Sequence[bytes]) -> bool:
    """Whether `signature` is `sha256=` plus the HMAC of `body` under one of `secrets`.

    Compared as bytes, since a header may hold anything; every secret is tried, so the time does not tell which fits.
    """
    given = signature or b""
    fits = False
    for secret in secrets:
        expected = b"sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest().encode()
        fits |= hmac.compare_digest(expected, given)
    return fits


def is_json_object(body: bytes) -> bool:
    """Strict JSON in UTF-8 with an object outermost: no NaN, no repeated names, no lone surrogates, no depth that a
    later reader would fail on.
    """
    try:
        value = json.loads(body.decode(), object_pairs_hook=_unique, parse_constant=_refuse)
        if _LONE_SURROGATE_HINT.search(body):
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a repeated name")
    return value


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _first(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> bytes | None:
    return next((value for name, value in headers if name == wanted), None)


def _name(headers: Iterable[tuple[bytes, bytes]], wanted: bytes, shape: re.Pattern[str]) -> str:
    text = (_first(headers, wanted) or b"").decode("latin-1")
    if not shape.fullmatch(text):
        raise Problem(400, f"{wanted.decode()} is missing or not what GitHub sends")
    return text


def _kept(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """What is worth keeping; never a signature."""
    return {
        text: value.decode("latin-1")[:500]
        for name, value in headers
        if _KEPT_HEADERS.fullmatch(text := name.decode("latin-1"))
    }
