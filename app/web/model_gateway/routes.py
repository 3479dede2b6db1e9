"""`POST …/model/v1/messages` and `…/count_tokens`: the Messages API as a sandbox sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack
from typing import Any

import httpx
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.background import BackgroundTask

from app.db.sandbox_access import SandboxIdentity
from app.observability.logging import get_logger
from app.web.body import Broken, TooLarge, TooSlow, read_capped
from app.web.model_gateway.call import Reservation, Upstream, reserve, send, settle
from app.web.model_gateway.errors import ModelError, model_errors
from app.web.model_gateway.key import REFUSALS, ModelKey, get_model_key, refuse_key
from app.web.model_gateway.meter import Meter
from app.web.model_gateway.policy import (
    Allowed,
    NotAllowed,
    allowed_betas,
    encode,
    parse_request,
    with_max_tokens,
)
from app.web.parts import Parts, PartsOf
from app.web.problems import Problem
from app.web.sandbox_auth import SandboxPath, identify
from app.web.tokens import model_token

log = get_logger()
router = APIRouter(
    prefix="/api/v1/sandboxes/{sandbox_id}/model",
    tags=["model gateway"],
    responses=model_errors(401, 403, 408, 413, 429, 502, 503, 504),
)

_ERROR_BYTES = 1_000_000
_BIG_BYTES = 250_000
_PASSED_HEADERS = ("user-agent", "anthropic-version", "x-app")
_PASSED_PREFIXES = ("x-claude-code-", "x-stainless-")
_VERSION = "2023-06-01"
_BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}},
    "security": [{"modelToken": []}, {"sandboxToken": []}],
}
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The model's answer, untouched",
        "content": {
            "application/json": {"schema": {"type": "object"}},
            "text/event-stream": {"schema": {"type": "string"}},
        },
    }
}


@router.post("/v1/messages", responses=_ANSWER, openapi_extra=_BODY, response_class=Response)
async def post_messages(request: Request, sandbox_id: SandboxPath, parts: PartsOf) -> Response:
    """Forwards a checked request under the sandbox's budget and streams the answer through, byte for byte."""
    try:
        return await _converse(request, sandbox_id, parts)
    except ModelError as error:
        return _refusal(parts, error)


@router.post("/v1/messages/count_tokens", responses=_ANSWER, openapi_extra=_BODY, response_class=Response)
async def count_tokens(request: Request, sandbox_id: SandboxPath, parts: PartsOf) -> Response:
    """Forwards a checked request; counting is free."""
    try:
        sandbox = await _identify(request, sandbox_id, parts)
        with ExitStack() as slot:
            _take_slot(parts, sandbox, slot)
            raw = await _read(request, parts)
            key = await get_model_key(parts, sandbox)
            allowed = await _check(parts, sandbox, raw, counting=True)
            upstream = await _forward(request, parts, key, "/v1/messages/count_tokens", encode(allowed.body))
            try:
                body = await upstream.read_whole(_ERROR_BYTES)
            except httpx.HTTPError:
                raise ModelError(502, "the model broke off", "broken") from None
            finally:
                await upstream.aclose()
            if upstream.status in REFUSALS:
                raise await refuse_key(parts, sandbox, key, upstream.status)
        return _whole(parts, upstream, key.hide(body))
    except ModelError as error:
        return _refusal(parts, error)


@router.api_route(
    "/{path:path}", methods=["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"], include_in_schema=False
)
async def other_paths(request: Request, sandbox_id: SandboxPath, path: str, parts: PartsOf) -> Response:
    """Nothing else of the Messages API is reachable."""
    del path
    try:
        await _identify(request, sandbox_id, parts)
    except ModelError as error:
        return _refusal(parts, error)
    return _refusal(
        parts, ModelError(404, "only /v1/messages and /v1/messages/count_tokens exist here", "path")
    )


async def _converse(request: Request, sandbox_id: str, parts: Parts) -> Response:
    sandbox = await _identify(request, sandbox_id, parts)
    with ExitStack() as slot:
        _take_slot(parts, sandbox, slot)
        raw = await _read(request, parts)
        key = await get_model_key(parts, sandbox)
        allowed = await _check(parts, sandbox, raw)
        try:
            reservation = await reserve(parts, sandbox, allowed, raw, key.scope)
        except (SQLAlchemyError, OSError):
            raise ModelError(503, "storage is unavailable; try again", "storage") from None
        # From here on the reservation must be settled, even if this request is cancelled.
        body = encode(with_max_tokens(allowed, reservation.max_tokens))
        exchange = _Exchange(parts, sandbox, reservation, slot.pop_all())
    return await exchange.run(request, key, body)


class _Exchange:
    """One forwarded request: owns its slot and its reservation until `end`, which comes exactly once."""

    def __init__(
        self, parts: Parts, sandbox: SandboxIdentity, reservation: Reservation, slot: ExitStack
    ) -> None:
        self.parts = parts
        self.sandbox = sandbox
        self.reservation = reservation
        self.slot = slot
        self.upstream: Upstream | None = None
        self.ended = False

    async def run(self, request: Request, key: ModelKey, body: bytes) -> Response:
        """Raises ModelError, settled."""
        try:
            self.upstream = await _send_unless_gone(request, self.parts, key, body)
            if self.upstream.status >= 300:
                answer = await self.upstream.read_whole(_ERROR_BYTES)
                await self.end(self.upstream.status)
                if self.upstream.status in REFUSALS:
                    raise await refuse_key(self.parts, self.sandbox, key, self.upstream.status)
                return _whole(self.parts, self.upstream, key.hide(answer))
        except ModelError as error:
            # Unreachable costs nothing; a request that was sent and never answered may have cost.
            await self.end(None, Meter(streamed=True) if error.outcome != "unreachable" else None)
            raise
        except httpx.HTTPError:
            await self.end(502)
            raise ModelError(502, "the model broke off", "broken") from None
        except BaseException:
            await self.end(None, Meter(streamed=True))
            raise
        self.parts.metrics.model_calls.labels("forwarded").inc()
        return StreamingResponse(
            self.stream(self.upstream),
            self.upstream.status,
            headers=dict(self.upstream.headers),
            media_type=self.upstream.content_type,
            background=BackgroundTask(self.end, self.upstream.status, self.upstream.meter),
        )

    async def stream(self, upstream: Upstream) -> AsyncIterator[bytes]:
        try:
            async for piece in upstream.pieces():
                yield piece
        finally:
            # Also when the client has gone: closing the upstream's connection makes it stop.
            await self.end(upstream.status, upstream.meter)

    async def end(self, status: int | None, meter: Meter | None = None) -> None:
        if self.ended:
            return
        self.ended = True
        self.slot.close()
        await asyncio.shield(self.parts.spawn(self._end(status, meter)))

    async def _end(self, status: int | None, meter: Meter | None) -> None:
        if self.upstream is not None:
            await self.upstream.aclose()
        await settle(self.parts, self.sandbox, self.reservation, status, meter)


async def _send_unless_gone(request: Request, parts: Parts, key: ModelKey, body: bytes) -> Upstream:
    """Waits for the upstream's first byte only as long as the client does. Raises ModelError."""
    sending = asyncio.ensure_future(_forward(request, parts, key, "/v1/messages", body))
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not sending.done():
            raise ModelError(499, "the client has gone", "gone")
        return sending.result()
    finally:
        leaving.cancel()
        if not sending.done():
            sending.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)


async def _left(request: Request) -> None:
    """Returns when the client has gone; its body has been read whole, so nothing else can come."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _identify(request: Request, sandbox_id: str, parts: Parts) -> SandboxIdentity:
    try:
        return await identify(parts, sandbox_id, model_token(request))
    except Problem as problem:
        raise ModelError(problem.status, problem.detail, "unauthorized") from None
    except (SQLAlchemyError, OSError):
        raise ModelError(503, "storage is unavailable; try again", "storage") from None


def _take_slot(parts: Parts, sandbox: SandboxIdentity, slot: ExitStack) -> None:
    if not slot.enter_context(parts.calls.taken(sandbox.id)):
        parts.metrics.throttled.labels("model calls").inc()
        raise ModelError(429, "too many model calls at once", "throttled", retry_after_s=1)


async def _read(request: Request, parts: Parts) -> bytes:
    try:
        return await read_capped(request, parts.limits.model_request_bytes, parts.limits.chunk_s)
    except TooLarge:
        raise ModelError(413, "the request is too large", "too_large") from None
    except (TooSlow, Broken):
        raise ModelError(408, "the request did not arrive in time", "too_slow") from None


async def _check(parts: Parts, sandbox: SandboxIdentity, raw: bytes, *, counting: bool = False) -> Allowed:
    models = (sandbox.model,) if sandbox.model else parts.settings.allowed_models
    try:
        if len(raw) > _BIG_BYTES:
            return await asyncio.to_thread(parse_request, raw, models, counting=counting)
        return parse_request(raw, models, counting=counting)
    except NotAllowed as refusal:
        log.warning("model_call.refused", sandbox_id=sandbox.id, reason=str(refusal))
        raise ModelError(403, str(refusal), "not_allowed") from None


async def _forward(request: Request, parts: Parts, key: ModelKey, path: str, body: bytes) -> Upstream:
    params = {"beta": "true"} if request.query_params.get("beta") == "true" else {}
    return await send(parts, key.base_url + path, _upstream_headers(request, key), body, params)


def _upstream_headers(request: Request, key: ModelKey) -> Mapping[str, str]:
    """An allow-list: no token, no address, no hop-by-hop header of the sandbox gets through."""
    headers = {
        name: value
        for name, value in request.headers.items()
        if name in _PASSED_HEADERS or name.startswith(_PASSED_PREFIXES)
    }
    headers.setdefault("anthropic-version", _VERSION)
    betas = allowed_betas(request.headers.getlist("anthropic-beta"))
    if betas is not None:
        headers["anthropic-beta"] = betas
    # identity: the meter reads the answer's bytes as they come.
    return {
        **headers,
        "accept": "application/json",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "x-api-key": key.secret,
    }


def _whole(parts: Parts, upstream: Upstream, body: bytes) -> Response:
    """An answer that has been read, as it is."""
    parts.metrics.model_calls.labels(
        "forwarded" if upstream.status < 300 else f"upstream_{upstream.status}"
    ).inc()
    return Response(body, upstream.status, dict(upstream.headers), upstream.content_type)


def _refusal(parts: Parts, error: ModelError) -> Response:
    parts.metrics.model_calls.labels(error.outcome).inc()
    return error.answer()
