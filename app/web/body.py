"""Reading a request's body under a cap and a deadline. uvicorn has neither (measured)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from app.web.problems import Problem, invalid

_DRAIN_S = 2.0
_DRAIN_BYTES = 4_000_000
_LENGTH = re.compile(r"[0-9]{1,18}")


class TooLarge(Exception):
    """The body is, or says it is, bigger than allowed."""


class TooSlow(Exception):
    """The body did not arrive in time."""


class Broken(Exception):
    """The client went away in the middle of its body."""


class NoRoom(Exception):
    """Too much is held for others just now."""


class Room:
    """What the bodies of strangers may take up in memory at once: each `free` bytes, and all of them together `shared`
    bytes beyond that.
    """

    def __init__(self, free: int, shared: int) -> None:
        self._free = free
        self._left = shared
        self._held: dict[Receive, int] = {}

    def hold(self, owner: Receive, size: int) -> None:
        """`size` bytes in all for `owner`, until `release`. Raises NoRoom."""
        if size <= self._free:
            return
        more = size - self._held.get(owner, 0)
        if more > self._left:
            raise NoRoom
        self._left -= more
        self._held[owner] = size

    def release(self, owner: Receive) -> None:
        self._left += self._held.pop(owner, 0)


def declared_length(request: Request) -> int | None:
    """What Content-Length says, None when it says nothing usable."""
    text = request.headers.get("content-length", "")
    return int(text) if _LENGTH.fullmatch(text) else None


async def stream_capped(request: Request, cap: int, chunk_s: float) -> AsyncIterator[bytes]:
    """The body piece by piece. Raises TooLarge (before reading anything when the length is declared), TooSlow when a
    piece takes longer than `chunk_s`, Broken.
    """
    if says_more(request.headers.get("content-length", ""), cap):
        await drain(request.receive, cap)
        raise TooLarge
    total = 0
    stream = request.stream().__aiter__()
    while True:
        try:
            async with asyncio.timeout(chunk_s):
                piece = await anext(stream, None)
        except TimeoutError:
            raise TooSlow from None
        except ClientDisconnect:
            raise Broken from None
        if piece is None:
            return
        total += len(piece)
        if total > cap:
            await drain(request.receive, cap)
            raise TooLarge
        yield piece


async def read_capped(request: Request, cap: int, limit_s: float) -> bytes:
    """The whole body. Raises TooLarge (before reading anything when the length is declared), TooSlow when it is not
    complete after `limit_s`, Broken.
    """
    declared = request.headers.get("content-length", "")
    try:
        if says_more(declared, cap):
            await drain(request.receive, cap)
            raise TooLarge
        async with asyncio.timeout(limit_s):
            return await collect(request.receive, cap)
    except TimeoutError:
        raise TooSlow from None


def says_more(declared: str, cap: int) -> bool:
    """Whether `declared`, the Content-Length, is usable and more than `cap`."""
    return _LENGTH.fullmatch(declared) is not None and int(declared) > cap


async def collect(receive: Receive, cap: int, room: Room | None = None) -> bytes:
    """The whole body, however long that takes; `room` holds it for `receive`. Raises TooLarge, Broken, NoRoom."""
    pieces: list[bytes] = []
    left = cap
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Broken
        piece = message.get("body", b"")
        left -= len(piece)
        more = message.get("more_body", False)
        if left < 0:
            if more:
                await drain(receive, cap)
            raise TooLarge
        if room is not None:
            room.hold(receive, cap - left)
        pieces.append(piece)
        if not more:
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def drain(receive: Receive, cap: int) -> None:
    """Read on a little, so that a client still sending sees the answer rather than a reset connection."""
    budget = max(cap, _DRAIN_BYTES)
    try:
        async with asyncio.timeout(_DRAIN_S):
            while budget > 0:
                message = await receive()
                budget -= len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return


async def read_or_problem(request: Request, cap: int, limit_s: float) -> bytes:
    """`read_capped` with its errors as problems."""
    try:
        return await read_capped(request, cap, limit_s)
    except (TooLarge, TooSlow, Broken) as error:
        raise body_problem(error, cap) from None


def body_problem(error: Exception, cap: int) -> Problem:
    """413, 408 or, for a client that has gone, 400. The connection is closed: its rest may still hold body."""
    close = {"Connection": "close"}
    if isinstance(error, TooLarge):
        return Problem(413, f"the body may have at most {cap} bytes", headers=close)
    if isinstance(error, TooSlow):
        return Problem(408, "the body did not arrive in time", headers=close)
    return Problem(400, "the body is incomplete", headers=close)


_MAX_JSON_BYTES = 1_000_000


class JsonBody:
    """A dependency that reads and checks a JSON body *after* the dependencies before it (authentication) passed;
    FastAPI's own body parameters are parsed first and would answer 422 to strangers.
    """

    def __init__(self, model: type[BaseModel]) -> None:
        self.model = model

    async def __call__(self, request: Request) -> BaseModel:
        body = await read_or_problem(request, _MAX_JSON_BYTES, 10.0)
        try:
            return self.model.model_validate_json(body or b"{}")
        except ValidationError as error:
            raise invalid(error) from None


def json_body(schema: dict[str, Any], *, required: bool = True) -> dict[str, Any]:
    """The `openapi_extra=` of a route that reads its JSON body itself."""
    return {"requestBody": {"required": required, "content": {"application/json": {"schema": schema}}}}
