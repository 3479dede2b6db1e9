"""A model gateway in front of a small upstream that does what a test says, all over real HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from sqlalchemy import select
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from app.db.models import ModelCall, Sandbox
from tests.web.conftest import add_sandbox, create_tables, get_row, served, until

ASK = {"model": "claude-opus-5-5", "max_tokens": 1000, "messages": [{"role": "user", "content": "Hi"}]}


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events)


START = {"type": "message_start", "message": {"usage": {"input_tokens": 1000, "output_tokens": 1}}}
TEXT = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "C(50,25)"}}
END = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 500}}


class Upstream:
    """A Messages API that does what a test says."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        self.status = 200
        self.answer: bytes = b"{}"
        self.stream: Any = None
        self.closed = 0
        self.headers: dict[str, str] = {"request-id": "req_1", "anthropic-organization-id": "org"}
        self.app = Starlette(routes=[Route("/{path:path}", self.serve, methods=["POST", "GET"])])

    async def serve(self, request: Request) -> Response:
        body = json.loads(await request.body())
        self.seen.append((str(request.url.path) + "?" + str(request.url.query), dict(request.headers), body))
        if self.stream is not None:
            return StreamingResponse(
                self._pieces(), self.status, self.headers, media_type="text/event-stream"
            )
        return Response(self.answer, self.status, self.headers, "application/json")

    async def _pieces(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self.stream():
                yield piece
        finally:
            self.closed += 1


class Gateway:
    def __init__(self, world: Any, url: str, sandbox: tuple[str, str], upstream: Upstream) -> None:
        self.world, self.upstream = world, upstream
        self.sandbox_id, self.token = sandbox
        self.base = f"{url}/api/v1/sandboxes/{self.sandbox_id}/model"
        self.http = httpx.AsyncClient(timeout=10, verify=False, trust_env=False)

    async def ask(self, body: Any = None, path: str = "/v1/messages", **headers: str) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(ASK if body is None else body).encode()
        sent = headers or {"x-api-key": self.token}
        return await self.http.post(self.base + path, content=content, headers=sent)

    async def row(self) -> Sandbox:
        return await get_row(self.world, Sandbox, self.sandbox_id)

    async def calls(self) -> list[ModelCall]:
        async with self.world.database.read() as session:
            return list(await session.scalars(select(ModelCall).order_by(ModelCall.started_at)))

    async def settled(self) -> Sandbox:
        async def done():
            calls = await self.calls()
            return calls and all(call.settled_at for call in calls)

        await until(done)
        return await self.row()


@asynccontextmanager
async def running(make_world, limits=None, sandbox=None, **settings):
    upstream = Upstream()
    async with served(upstream.app) as upstream_url:
        world = make_world(limits, anthropic_base_url=upstream_url + "/prefix", **settings)
        await create_tables(world)
        async with served(world.app) as url:
            gateway = Gateway(world, url, await add_sandbox(world, **(sandbox or {})), upstream)
            async with gateway.http:
                yield gateway


def plain(**usage: Any) -> bytes:
    return json.dumps({"type": "message", "usage": usage}).encode()
