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

from simdjson import Object, Parser
from starlette.types import Receive, Scope, Send

from app.db.deliveries import NewDelivery
from app.domain.ids import DeliveryId
from app.web.body import Broken, NoRoom, Room, TooLarge, TooSlow, body_problem, collect, drain, says_more
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
_BOM = 0xEF
_LONE_SURROGATE_HINT = re.compile(rb"\\u[dD][89a-fA-F]")
_BIG_BYTES = 500_000
"""Above this, hashing and parsing take longer than other requests should wait."""


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
        self._room = Room(_BIG_BYTES, parts.limits.webhook_shared_bytes)
        self._committer = Committer(parts)
        self._parser = Parser()  # keeps as much memory as its largest body needed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stores one delivery; 202 once it is durable, also for events that are ignored later and for repeated ones."""
        try:
            headers = dict(reversed(scope["headers"]))  # of a header that is repeated, the first counts
            body = await self._read(headers, receive)
            if len(body) > _BIG_BYTES:
                delivery = await asyncio.to_thread(self._check, headers, body, Parser())
            else:
                delivery = self._check(headers, body, self._parser)
            await self._committer.record(delivery)
        except Problem as problem:
            self._parts.metrics.deliveries.labels(str(problem.status)).inc()
            await problem.answer()(scope, receive, send)
        except NotStored:
            self._parts.metrics.deliveries.labels("503").inc()
            refusal = Problem(503, "storage is unavailable; deliver it again", headers={"Retry-After": "10"})
            await refusal.answer()(scope, receive, send)
        else:
            await _accept(delivery.id, send)
        finally:
            self._room.release(receive)

    async def _read(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """Raises Problem."""
        cap = self._parts.limits.webhook_bytes
        try:
            if says_more(headers.get(b"content-length", b"").decode("latin-1"), cap):
                await drain(receive, cap)
                raise TooLarge
            return await self._arriving.wait_for(collect(receive, cap, self._room))
        except TimeoutError:
            raise body_problem(TooSlow(), cap) from None
        except (TooLarge, Broken) as error:
            raise body_problem(error, cap) from None
        except NoRoom:
            await drain(receive, cap)
            busy = {"Retry-After": "10", "Connection": "close"}
            raise Problem(503, "too much arrives at once; deliver it again", headers=busy) from None

    def _check(self, headers: Mapping[bytes, bytes], body: bytes, parser: Parser) -> NewDelivery:
        """All that needs no waiting. Raises Problem."""
        if not is_signed(body, headers.get(b"x-hub-signature-256", b""), self._secrets):
            raise Problem(401, "X-Hub-Signature-256 is missing or does not fit")
        kept = _kept(headers)
        event = _name(kept, "x-github-event", _EVENT)
        guid = _name(kept, "x-github-delivery", _GUID)
        content_type = headers.get(b"content-type", _JSON)
        if content_type != _JSON and content_type.split(b";")[0].strip().lower() != _JSON:
            raise Problem(400, "the webhook's content type must be application/json")
        if not is_json_object(body, parser):
            raise Problem(400, "the body is not a JSON object")
        return NewDelivery(DeliveryId(guid), event, kept, body, self._parts.clock())


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


def is_json_object(body: bytes, parser: Parser) -> bool:
    """Strict JSON in UTF-8 with an object outermost: no NaN, no lone surrogates, no number that Python's reader fails
    on, no deeper than a thousand levels (intake says of the deepest that it can't read them). Of a repeated name the
    last counts, as for every reader here.
    """
    # Takes a tenth of the time of Python's reader, and is the more generous of the two only towards a byte order mark
    # and the last levels. What it refuses may still be good, as numbers that fit no 64 bits: Python says.
    try:
        if isinstance(parser.parse(body), Object) and body[0] != _BOM:
            return True
    except (ValueError, RuntimeError):
        pass
    return _is_json_object_for_python(body)


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


def _name(kept: Mapping[str, str], wanted: str, shape: re.Pattern[str]) -> str:
    text = kept.get(wanted, "")
    if not shape.fullmatch(text):
        raise Problem(400, f"{wanted} is missing or not what GitHub sends")
    return text


def _kept(headers: Mapping[bytes, bytes]) -> dict[str, str]:
    """What is worth keeping; never a signature."""
    return {
        name: value.decode("latin-1")[:500]
        for key, name in _KEPT_HEADERS.items()
        if (value := headers.get(key)) is not None
    }
