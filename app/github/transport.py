"""The one connection pool per GitHub, and what it smooths out before githubkit sees an answer."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache

import httpx


class SharedTransport(httpx.AsyncBaseTransport):
    """Survives the clients that use it: githubkit makes one client per call and closes it, pool and all.

    Without this each call pays for a new connection (50 ms instead of 2).
    """

    def __init__(self) -> None:
        limits = httpx.Limits(max_connections=50, max_keepalive_connections=20, keepalive_expiry=30)
        self._pool = httpx.AsyncHTTPTransport(verify=_trusted(), limits=limits)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._pool.handle_async_request(request)
        after = response.headers.get("retry-after")
        if after is not None and not (after.isascii() and after.isdigit()):
            # githubkit takes whole seconds only, and raises ValueError on the other legal form, a date.
            response.headers["retry-after"] = str(_seconds_until(after))
        return response

    async def aclose(self) -> None:
        """Nothing, on purpose; see `close_pool`."""

    async def close_pool(self) -> None:
        await self._pool.aclose()


@cache
def _trusted() -> ssl.SSLContext:
    """Whom to believe. Reading the authorities takes 50 ms and more, so it is done once per process."""
    return httpx.create_ssl_context()


def _seconds_until(text: str) -> int:
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return 60
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return max(int((at - datetime.now(UTC)).total_seconds()), 1)
