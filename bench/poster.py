"""Posts signed deliveries over kept-open connections as fast as they are answered: one and the same client for every
server, and light enough not to be what is measured.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import uvloop

CONNECTIONS = 64
LIMIT_S = 120.0
BODY = (Path(__file__).parents[1] / "tests" / "payloads" / "issues" / "labeled.json").read_bytes()
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def post_all(port: int, path: str, secret: str, count: int) -> float:
    """How many a second were answered with 202. Raises RuntimeError on any other answer."""
    signature = hmac.new(secret.encode(), BODY, hashlib.sha256).hexdigest()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nUser-Agent: GitHub-Hookshot/1\r\n"
        f"Content-Length: {len(BODY)}\r\nX-GitHub-Event: issues\r\nX-Hub-Signature-256: sha256={signature}\r\n"
    )
    requests = iter(
        [f"{head}X-GitHub-Delivery: {uuid.uuid4()}\r\n\r\n".encode() + BODY for _ in range(count)]
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return count / runner.run(_post(port, requests))


async def _post(port: int, requests: Iterator[bytes]) -> float:
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    ends = []
    for _ in range(CONNECTIONS):
        _, client = await loop.create_connection(lambda: _Connection(requests), "127.0.0.1", port)
        ends.append(client.ended)
    async with asyncio.timeout(LIMIT_S):
        await asyncio.gather(*ends)
    return time.perf_counter() - started


class _Connection(asyncio.Protocol):
    def __init__(self, requests: Iterator[bytes]) -> None:
        self._requests = requests
        self._answer = b""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._next()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, found, rest = self._answer.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not found or len(rest) < (int(length.group(1)) if length else 0):
            return
        if b" 202 " not in head.split(b"\r\n", 1)[0]:
            self._fail(head.decode(errors="replace"))
            return
        self._answer = b""
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the connection was lost: {exc}")

    def _next(self) -> None:
        request = next(self._requests, None)
        if request is not None:
            self._transport.write(request)
            return
        if not self.ended.done():
            self.ended.set_result(None)
        self._transport.close()

    def _fail(self, why: str) -> None:
        if not self.ended.done():
            self.ended.set_exception(RuntimeError(why))
        self._transport.close()
