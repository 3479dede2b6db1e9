"""`POST /webhooks/github`: keeps what GitHub says, durably, and nothing else. Reading it comes later.

The order of the checks is the contract's: 413, 408, 401, 400, then 503.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from app.db.deliveries import NewDelivery
from app.db.types import pack
from app.domain.ids import DeliveryId
from app.web.body import Broken, TooLarge, TooSlow, body_problem, read_whole
from app.web.committer import Committer, NotStored
from app.web.deadlines import Deadlines
from app.web.parts import Parts
from app.web.problems import Problem, problems

_GUID = re.compile(r"[A-Za-z0-9-]{1,64}")
_EVENT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_KEPT_HEADERS = {
    name.encode(): name
    for name in (
        "x-github-event",
        "x-github-delivery",
        "x-github-hook-id",
        "x-github-hook-installation-target-type",
        "x-github-hook-installation-target-id",
        "x-github-enterprise-version",
        "x-github-enterprise-host",
        "user-agent",
        "content-type",
    )
}
_JSON = b"application/json"
_DIGITS = re.compile(rb"[0-9]{300}")
_LONE_SURROGATE_HINT = re.compile(rb"\\u[dD][89a-fA-F]")
_BIG_BYTES = 500_000
"""Above this, hashing, parsing and packing take longer than other requests should wait."""


class _Object(msgspec.Struct):
    """Any JSON object: what is in it is passed over."""


_OBJECT = msgspec.json.Decoder(_Object)

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
        self._secrets = parts.settings.webhook_secrets
        self._arriving = Deadlines(parts.limits.webhook_body_s)
        self._committer = Committer(parts)
        self._stored = parts.metrics.deliveries.labels("stored")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stores one delivery; 202 once it is durable, also for events that are ignored later and for repeated ones."""
        try:
            delivery = await self._read_delivery(scope["headers"], receive)
            await self._committer.record(delivery)
        except Problem as problem:
            self._parts.metrics.deliveries.labels(str(problem.status)).inc()
            await problem.answer()(scope, receive, send)
        except NotStored:
            self._parts.metrics.deliveries.labels("503").inc()
            refusal = Problem(503, "storage is unavailable; deliver it again", headers={"Retry-After": "10"})
            await refusal.answer()(scope, receive, send)
        else:
            self._stored.inc()
            await _accept(delivery.id, send)

    async def _read_delivery(self, pairs: Sequence[tuple[bytes, bytes]], receive: Receive) -> NewDelivery:
        """Raises Problem."""
        limits = self._parts.limits
        headers = dict(reversed(pairs))  # of a header that is repeated, the first counts
        try:
            declared = headers.get(b"content-length", b"").decode("latin-1")
            body = await read_whole(receive, declared, limits.webhook_bytes, self._arriving.wait_for)
        except (TooLarge, TooSlow, Broken) as error:
            raise body_problem(error, limits.webhook_bytes) from None
        if len(body) > _BIG_BYTES:
            return await asyncio.to_thread(self._check, headers, body)
        return self._check(headers, body)

    def _check(self, headers: Mapping[bytes, bytes], body: bytes) -> NewDelivery:
        """All that needs no waiting, the packing too: now, while the group before is being written. Raises Problem."""
        if not is_signed(body, headers.get(b"x-hub-signature-256", b""), self._secrets):
            raise Problem(401, "X-Hub-Signature-256 is missing or does not fit")
        event = _name(headers, b"x-github-event", _EVENT)
        guid = _name(headers, b"x-github-delivery", _GUID)
        content_type = headers.get(b"content-type", _JSON)
        if content_type != _JSON and content_type.split(b";")[0].strip().lower() != _JSON:
            raise Problem(400, "the webhook's content type must be application/json")
        if not is_json_object(body):
            raise Problem(400, "the body is not a JSON object")
        return NewDelivery(DeliveryId(guid), event, _kept(headers), pack(body), self._parts.clock())


async def _accept(delivery_id: DeliveryId, send: Send) -> None:
    # The id is checked: letters, digits and dashes.
    body = f'{{"status":"stored","delivery_id":"{delivery_id}"}}'.encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 202, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def is_signed(body: bytes, signature: bytes, secrets: Sequence[bytes]) -> bool:
    """Whether `signature` is `sha256=` plus the HMAC of `body` under one of `secrets`.

    Compared as bytes, since a header may hold anything; every secret is tried, so the time does not tell which fits.
    """
    fits = False
    for secret in secrets:
        mac = _keyed(secret).copy()
        mac.update(body)
        fits |= hmac.compare_digest(b"sha256=" + mac.hexdigest().encode(), signature)
    return fits


@lru_cache(maxsize=16)
def _keyed(secret: bytes) -> hmac.HMAC:
    """What depends on the secret alone; a third of the work on a usual body."""
    return hmac.new(secret, digestmod="sha256")


def is_json_object(body: bytes) -> bool:
    """Strict JSON in UTF-8 with an object outermost: no NaN, no lone surrogates, no depth and no number that Python's
    reader fails on. Of a repeated name the last counts, as for every reader here.
    """
    # Reading without building anything takes a seventh of the time, and is never the more generous of the two but for
    # the bytes within texts, which it passes over, and for long numbers.
    try:
        body.decode()
        _OBJECT.decode(body)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        pass
    else:
        if not _has_long_number(body):
            return True
    return _is_json_object_for_python(body)


def _has_long_number(body: bytes) -> bool:
    """Whether there may be one of over 4,300 digits, the most that Python reads: it would hold one of these places, and
    three hundred digits from there on.
    """
    return any(_DIGITS.match(body, at) for at in range(0, len(body), 4000))


def _is_json_object_for_python(body: bytes) -> bool:
    try:
        value = json.loads(body.decode(), parse_constant=_refuse)
        if _LONE_SURROGATE_HINT.search(body):
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict)


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _name(headers: Mapping[bytes, bytes], wanted: bytes, shape: re.Pattern[str]) -> str:
    text = headers.get(wanted, b"").decode("latin-1")
    if not shape.fullmatch(text):
        raise Problem(400, f"{wanted.decode()} is missing or not what GitHub sends")
    return text


def _kept(headers: Mapping[bytes, bytes]) -> dict[str, str]:
    """What is worth keeping; never a signature."""
    return {
        name: value.decode("latin-1")[:500]
        for key, name in _KEPT_HEADERS.items()
        if (value := headers.get(key)) is not None
    }
