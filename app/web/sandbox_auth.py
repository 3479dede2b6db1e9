"""Who a request with a sandbox token is: 401 without or with an unknown token, 403 for another or an ended sandbox."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Request
from fastapi.security import HTTPBearer

from app.db.sandbox_access import SandboxIdentity, find_by_token, is_known_token
from app.web.parts import Parts, PartsOf
from app.web.problems import Problem
from app.web.tokens import bearer_token

bearer_scheme = HTTPBearer(
    scheme_name="sandboxToken", description="The token of that one sandbox.", auto_error=False
)
"""Only for the schema; the token is read from the raw header, which may hold anything."""

SandboxPath = Annotated[str, Path(description="The sandbox's id.")]
"""Without constraints: an impossible id is 401 or 403 like any other that is not this token's."""


async def identify(parts: Parts, sandbox_id: str, token: bytes | None) -> SandboxIdentity:
    """Raises Problem 401 or 403."""
    if not token:
        raise Problem(401, "a sandbox token is needed", headers={"WWW-Authenticate": "Bearer"})
    if "\x00" in sandbox_id:
        raise Problem(403, "this token is of another sandbox")
    async with parts.database.look() as session:
        identity = await find_by_token(session, sandbox_id, token)
        known = identity is not None or await is_known_token(session, token)
    if identity is None:
        if known:
            raise Problem(403, "this token is of another sandbox")
        raise Problem(401, "this sandbox token is not known", headers={"WWW-Authenticate": "Bearer"})
    if not identity.live:
        raise ended()
    return identity


def ended() -> Problem:
    return Problem(403, "this sandbox has ended")


async def sandbox_of(
    request: Request,
    sandbox_id: SandboxPath,
    parts: PartsOf,
    _scheme: Annotated[object, Depends(bearer_scheme)],
) -> SandboxIdentity:
    return await identify(parts, sandbox_id, bearer_token(request))


SandboxOf = Annotated[SandboxIdentity, Depends(sandbox_of)]


async def reporting_sandbox_of(
    request: Request,
    sandbox_id: SandboxPath,
    parts: PartsOf,
    _scheme: Annotated[object, Depends(bearer_scheme)],
) -> SandboxIdentity:
    """For what looks itself, in its own transaction, whether the sandbox still lives: that may be unknown here."""
    token = bearer_token(request)
    known = parts.known_tokens.find(sandbox_id, token) if token else None
    if known is not None:
        return known
    identity = await identify(parts, sandbox_id, token)
    if token:
        parts.known_tokens.note(sandbox_id, token, identity)
    return identity


ReportingSandboxOf = Annotated[SandboxIdentity, Depends(reporting_sandbox_of)]


def throttled(parts: Parts, what: str, wait_s: float) -> Problem:
    """429, with when to come again."""
    parts.metrics.throttled.labels(what).inc()
    return Problem(
        429, f"too many {what}", headers={"Retry-After": str(max(1, min(60, round(wait_s + 0.5))))}
    )
