"""The floor for webhook receipts: an ASGI endpoint that only checks the HMAC and stores nothing."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Awaitable, Callable
from typing import Any

_SECRET = os.environ.get("GITHUB_WEBHOOK_SECRET", "").encode()


async def app(
    scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Any]
) -> None:
    """Answers 202 to a signed body, 401 to anything else."""
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        part = await receive()
        body += part.get("body", b"")
        more = part.get("more_body", False)
    given = dict(scope["headers"]).get(b"x-hub-signature-256", b"")
    expected = b"sha256=" + hmac.new(_SECRET, body, hashlib.sha256).hexdigest().encode()
    status = 202 if hmac.compare_digest(given, expected) else 401
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})
