"""Reading tokens out of headers."""

from __future__ import annotations

import time

from fastapi import Request

from app.db.sandbox_access import SandboxIdentity, hash_token

_KNOWN_S = 60.0
_KNOWN_COUNT = 5_000


class KnownTokens:
    """Whose tokens were seen a moment ago: a token is never another sandbox's, but its sandbox may have ended since."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[SandboxIdentity, float]] = {}

    def find(self, sandbox_id: str, token: bytes) -> SandboxIdentity | None:
        found = self._known.get((sandbox_id, hash_token(token)))
        return found[0] if found is not None and found[1] > time.monotonic() else None

    def note(self, sandbox_id: str, token: bytes, identity: SandboxIdentity) -> None:
        if len(self._known) >= _KNOWN_COUNT:
            self._known.clear()
        self._known[sandbox_id, hash_token(token)] = (identity, time.monotonic() + _KNOWN_S)


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
