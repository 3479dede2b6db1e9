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
from typing import Any

from fastapi import Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from app.db.deliveries import NewDelivery
from app.domain.ids import DeliveryId
from app.web.body import Broken, TooLarge, TooSlow, body_problem, read_capped
from app.web.committer import Committer, NotStored
from app.web.parts import Parts
from app.web.problems import Problem, problems

_GUID = re.compile(r"[A-Za-z0-9-]{1,64}")
_EVENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_KEPT_HEADERS = re.compile(r"x-github-[a-z-]{1,60}|user-agent|content-type")
_LONE_SURROGATE_HINT = re.compile(rb"\\u[dD][89a-fA-F]")
_BIG_BYTES = 500_000
"""Above this, hashing and parsing take longer than other requests should wait."""


WEBHOOK_PATH = "/webhooks/github"

OPERATION: dict[str, Any] = {
    "summary": "Receive Delivery",
    "description": "Stores one delivery; 202 once it is durable, also for events that are ignored later and for "
    "repeated ones.",
    "operationId": "receive_delivery",
    "security": [],
    "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}},
    "responses": {
        "202": {
            "description": "Stored",
            "content": {
                "application/json": {
                    "schema": {
                        "title": "DeliveryReceipt",
                        "type": "object",
                        "required": ["status", "delivery_id"],
                        "properties": {"status": {"const": "stored"}, "delivery_id": {"type": "string"}},
                    }
                }
            },
        },
        **{str(status): answer for status, answer in problems(400, 401, 408, 413, 503).items()},
    },
}
"""How `/openapi.json` describes this route."""


class Webhook:
    """The route as an ASGI app of its own. GitHub sends in bursts; what FastAPI does around a function (dependencies,
    models, exit stacks) takes several times as long as receiving a delivery.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._committer = Committer(parts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stores one delivery; 202 once it is durable, also for events that are ignored later and for repeated ones."""
        answer: ASGIApp
        try:
            delivery = await _read_delivery(Request(scope, receive), self._parts)
            await self._committer.record(delivery)
        except Problem as problem:
            outcome, answer = str(problem.status), problem.answer()
        except NotStored:
            refusal = Problem(503, "storage is unavailable; deliver it again", headers={"Retry-After": "10"})
            outcome, answer = "503", refusal.answer()
        else:
            outcome, answer = "stored", Receipt(delivery.id)
        self._parts.metrics.deliveries.labels(outcome).inc()
        await answer(scope, receive, send)


class Receipt(Response):
    def __init__(self, delivery_id: DeliveryId) -> None:
        # The id is checked: letters, digits and dashes.
        content = f'{{"status":"stored","delivery_id":"{delivery_id}"}}'
        super().__init__(content, 202, media_type="application/json")


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
