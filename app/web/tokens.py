"""Reading tokens out of headers."""

from __future__ import annotations

from fastapi import Request


def bearer_token(request: Request) -> bytes | None:
    """The token of `Authorization: Bearer …` as the bytes that came in; None when there is none."""
    for name, value in request.scope["headers"]:
        if name == b"authorization":
            scheme, _, token = bytes(value).strip().partition(b" ")
            return token.strip() or None if scheme.lower() == b"bearer" else None
    return None


def model_token(request: Request) -> bytes | None:
    """The token of a model call: `x-api-key`, else bearer."""
    for name, value in request.scope["headers"]:
        if name == b"x-api-key" and value:
            return bytes(value).strip()
    return bearer_token(request)
