"""The end of a log that GitHub links to, wherever it keeps it: read as a stranger, without any token."""

from __future__ import annotations

import asyncio

import httpx
import structlog

_log = structlog.get_logger(__name__)

KEPT = 256 * 1024
"""Bytes of the end that are kept."""
MOST = 32 * 1024 * 1024
"""Bytes that are read at most: of a longer log the end is not looked for."""
PATIENCE_S = 10


async def fetch_tail(url: str) -> str | None:
    """The last lines as text, whole lines only; None when it can't be had in time."""
    if not url.startswith(("https://", "http://")):
        return None
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await _read(url)
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        _log.info("log.not_read", error=type(error).__name__)
        return None


async def _read(url: str) -> str | None:
    tail, read = bytearray(), 0
    async with (
        httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=5) as client,
        client.stream("GET", url) as answer,
    ):
        if answer.status_code != httpx.codes.OK:
            return None
        async for piece in answer.aiter_bytes():
            read += len(piece)
            if read > MOST:
                return None
            tail += piece
            del tail[: max(len(tail) - KEPT, 0)]
    whole = bytes(tail)
    if read > KEPT:
        whole = whole[whole.find(b"\n") + 1 :]
    return whole.decode("utf-8", "replace")
