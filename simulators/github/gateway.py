"""ASGI front of the REST and GraphQL APIs: log, faults, authentication, limits, ETags."""

import asyncio
import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from simulators.github import graphql
from simulators.github.auth import Principal, authenticate
from simulators.github.clock import iso
from simulators.github.errors import ApiError
from simulators.github.faults import Fault, Faults
from simulators.github.journal import Entry, Journal
from simulators.github.limits import Limits
from simulators.github.platform import Platform
from simulators.github.rest.routing import Call, Reply, find_route, invoke, is_rest_path

MAX_BODY = 100 * 1024 * 1024


@dataclass
class Answer:
    """A finished answer."""

    status: int
    headers: dict[str, str]
    body: bytes


def encode_reply(reply: Reply) -> tuple[bytes, str]:
    """Body and content type."""
    if reply.text is not None:
        return reply.text.encode(), "text/plain; charset=utf-8"
    if reply.json is None:
        return b"", ""
    return json.dumps(reply.json, separators=(",", ":")).encode(), "application/json; charset=utf-8"


def error_reply(error: ApiError) -> Reply:
    """An error as a reply."""
    return Reply(error.body(), error.status, error.headers)


class Gateway:
    """Answers REST and GraphQL requests."""

    def __init__(self, platform: Platform, journal: Journal, faults: Faults, limits: Limits) -> None:
        self.platform = platform
        self.journal = journal
        self.faults = faults
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; ``scope["path"]`` without any ``/api/v3``."""
        request = Request(scope, receive)
        path = scope["raw_path"].decode("ascii", "replace").split("?")[0]
        kind = "graphql" if path == "/graphql" else "rest"
        query = scope["query_string"].decode("latin-1")
        entry = self.journal.open(kind, request.method, path, query, iso(self.platform.world.now()))
        try:
            raw = await request.body()
        except ClientDisconnect:
            return
        entry.body = parse_or_none(raw)
        principal, refusal = self._authenticate(request.headers, entry)
        token = entry.caller["kind"] if entry.caller else "none"
        fault = self.faults.pick(request.method, path, token)
        if fault is not None:
            entry.fault = fault.id
            await asyncio.sleep(fault.delay_s)
            if fault.drop and not fault.apply:
                await drop_connection(receive, send)
                return
        answer = self._answer(request, path, raw, principal, refusal, fault)
        entry.status = answer.status
        entry.duration_s = round(time.monotonic() - entry.at, 4)
        if fault is not None and fault.drop:
            await drop_connection(receive, send)
            return
        await send_answer((receive, send), answer, request.method, fault)

    def _authenticate(
        self, headers: Mapping[str, str], entry: Entry
    ) -> tuple[Principal | None, ApiError | None]:
        try:
            principal = authenticate(self.platform.world, headers)
        except ApiError as error:
            return None, error
        entry.caller = principal.describe() if principal else None
        return principal, None

    def _answer(
        self,
        request: Request,
        path: str,
        raw: bytes,
        principal: Principal | None,
        refusal: ApiError | None,
        fault: Fault | None,
    ) -> Answer:
        link = None
        if fault is not None and fault.status is not None and not fault.apply:
            reply = fault_reply(fault)
        else:
            try:
                if refusal is not None:
                    raise refusal
                self.limits.check(principal)
                reply, link = self._call(request, path, raw, principal)
            except ApiError as error:
                reply = error_reply(error)
            if fault is not None and fault.status is not None:
                reply = fault_reply(fault)
        return self._finish(request, reply, link, principal)

    def _call(
        self, request: Request, path: str, raw: bytes, principal: Principal | None
    ) -> tuple[Reply, str | None]:
        payload = read_payload(raw)
        query = dict(parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True))
        if path == "/graphql":
            if principal is None:
                raise ApiError(401, "This endpoint requires you to be authenticated.")
            return Reply(graphql.execute(self.platform, principal, payload)), None
        if path == "/rate_limit":
            return Reply(rate_limit_json(self.limits, principal)), None
        if "raw" in request.headers.get("accept", ""):
            query[".accept"] = "raw"
        found = find_route(request.method, path)
        if found is None:
            raise ApiError(404, "Not Found")
        call = Call(self.platform, request.method, path, found[1], query, payload, principal)
        try:
            return invoke(call, found[0]), call.link
        except LookupError as problem:
            raise ApiError(404, "Not Found") from problem

    def _finish(
        self, request: Request, reply: Reply, link: str | None, principal: Principal | None
    ) -> Answer:
        body, content_type = encode_reply(reply)
        headers = {
            "Date": formatdate(self.platform.world.clock.jwt_now(), usegmt=True),
            "X-GitHub-Request-Id": secrets.token_hex(8).upper(),
            "X-GitHub-Media-Type": "github.v3; format=json",
            "X-GitHub-Api-Version-Selected": request.headers.get("x-github-api-version", "2022-11-28"),
        }
        if content_type:
            headers["Content-Type"] = content_type
        if link:
            headers["Link"] = link
        status = reply.status
        if request.method == "GET" and status == 200:
            tag = f'W/"{hashlib.sha256(body).hexdigest()}"'
            headers["ETag"] = tag
            headers["Cache-Control"] = "private, max-age=60, s-maxage=60"
            if request.headers.get("if-none-match") == tag:
                status, body = 304, b""
        if status != 304:
            self.limits.count(principal)
        return Answer(status, {**self.limits.headers(principal), **headers, **reply.headers}, body)


def parse_or_none(raw: bytes) -> Any:
    """JSON for the log."""
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return raw[:2000].decode("utf-8", "replace")


def read_payload(raw: bytes) -> dict[str, Any]:
    """The body as an object; 400 for something else (a bare list counts as ``labels``, which GitHub allows)."""
    if not raw.strip():
        return {}
    try:
        payload = json.loads(raw)
    except ValueError:
        raise ApiError(400, "Problems parsing JSON") from None
    if isinstance(payload, list):
        return {"labels": payload}
    if not isinstance(payload, dict):
        raise ApiError(400, "Body should be a JSON object")
    return payload


def rate_limit_json(limits: Limits, principal: Principal | None) -> dict[str, Any]:
    """``GET /rate_limit``."""
    window = limits.window(principal)
    rate = {
        "limit": window.limit,
        "used": window.used,
        "remaining": max(window.limit - window.used, 0),
        "reset": int(window.ends_at),
    }
    return {"resources": {"core": rate, "search": rate, "graphql": rate}, "rate": rate}


def fault_reply(fault: Fault) -> Reply:
    """The answer a fault gives."""
    status = fault.status or 500
    body = {"message": fault.message or "Server Error", "documentation_url": "https://docs.github.com/rest"}
    return Reply(body, status, dict(fault.headers))


async def send_answer(
    channel: tuple[Receive, Send], answer: Answer, method: str, fault: Fault | None
) -> None:
    """Writes an answer; a truncating fault promises the whole length and then hangs up."""
    receive, send = channel
    headers = [
        (name.lower().encode(), value.encode("latin-1", "replace")) for name, value in answer.headers.items()
    ]
    if answer.status not in (204, 304):
        headers.append((b"content-length", str(len(answer.body)).encode()))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if fault is not None and fault.truncate is not None:
        cut = answer.body[: fault.truncate]
        await send({"type": "http.response.body", "body": cut, "more_body": True})
        await drop_connection(receive, send)
        return
    body = b"" if method == "HEAD" else answer.body
    await send({"type": "http.response.body", "body": body})


async def drop_connection(receive: Receive, send: Send) -> None:
    """Closes the connection without another byte (uvicorn's transport is behind ``send``)."""
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is None:
        raise RuntimeError("dropping connections needs uvicorn")
    # what was sent so far leaves first; `abort` would throw it away
    transport.close()
    while (await receive())["type"] != "http.disconnect":
        continue


def is_api_path(path: str) -> bool:
    """Whether the gateway, not the web view, answers a path."""
    return path in ("/graphql", "/rate_limit") or is_rest_path(path)
