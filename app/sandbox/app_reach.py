"""Whether the web process answers this machine: by its socket where it is on this host, else by its public address.

The same way as calls that a worker makes for a sandbox go.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

LIMIT_S = 5.0


async def why_silent(near: Path | None, app_url: str) -> str:
    """Empty when it answers well. `near`: its socket on this host."""
    is_here = near is not None and await asyncio.to_thread(near.exists)
    transport = httpx.AsyncHTTPTransport(uds=str(near)) if is_here else None
    base_url = "http://app" if is_here else app_url
    try:
        async with httpx.AsyncClient(
            transport=transport, base_url=base_url, timeout=LIMIT_S, trust_env=False
        ) as client:
            answer = await client.get("/healthz")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return str(error) or type(error).__name__
    # The socket serves sandboxes and nothing else: whatever it answers, the web process lives.
    return "" if is_here or answer.is_success else f"HTTP {answer.status_code}"
