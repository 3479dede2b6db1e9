"""The way to the app for calls that are carried from a sandbox: its own routes, with that sandbox's own token.

The token is derived as when the sandbox was made, and the path begins with that sandbox's id, whatever the call says. So
the app checks and limits a carried call as any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx

from sandbox_payload.wire.relay import RelayedAnswer, RelayedCall

_PIECE_BYTES = 1_000_000
_POLL_S = 45.0
"""For the answer to a poll that waits, 25 s at most, and to everything else."""


class AppDoor:
    """Through the web process's socket where it is on this host, else by `base_url`."""

    def __init__(self, socket: Path, base_url: str) -> None:
        self._socket = socket
        limit = httpx.Timeout(_POLL_S, connect=5.0)
        pool = httpx.Limits(max_connections=None, max_keepalive_connections=50)
        inside = httpx.AsyncHTTPTransport(uds=str(socket), limits=pool)
        self._near = httpx.AsyncClient(transport=inside, base_url="http://app", timeout=limit)
        self._far = httpx.AsyncClient(base_url=base_url, timeout=limit, limits=pool, trust_env=False)

    async def ask(
        self, sandbox_id: str, token: str, call: RelayedCall, body: bytes | Path | None
    ) -> RelayedAnswer:
        """The app's answer, whatever it is. Raises httpx.TransportError when there is none."""
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        if call.sha256 is not None:
            headers["X-Content-SHA256"] = call.sha256
        if isinstance(body, Path):
            size = await asyncio.to_thread(lambda: body.stat().st_size)
            headers |= {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
        elif body is not None:
            headers["Content-Type"] = "application/json"
        near = await asyncio.to_thread(self._socket.exists)
        answer = await (self._near if near else self._far).request(
            call.method,
            f"/api/v1/sandboxes/{sandbox_id}{call.path}",
            headers=headers,
            content=_pieces(body) if isinstance(body, Path) else body,
        )
        return RelayedAnswer(
            call=call.call,
            status=answer.status_code,
            body=answer.text,
            retry_after=answer.headers.get("Retry-After"),
        )

    async def aclose(self) -> None:
        await self._near.aclose()
        await self._far.aclose()


async def _pieces(file: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(file.open, "rb") as opened:
        while piece := await asyncio.to_thread(opened.read, _PIECE_BYTES):
            yield piece
