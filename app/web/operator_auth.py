"""The operator's token: 403 for everyone while `API_TOKEN` is unset, 401 without it or with another."""

from __future__ import annotations

import hmac
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from fastapi.security import HTTPBearer

from app.db.operator_views import BadCursor, Place
from app.web.parts import PartsOf
from app.web.problems import Problem, problems
from app.web.tokens import bearer_token

operator_scheme = HTTPBearer(scheme_name="operatorToken", description="API_TOKEN.", auto_error=False)

OPERATOR_PROBLEMS: dict[int | str, dict[str, Any]] = problems(401, 403, 404, 422, 503)


async def require_operator(
    request: Request, parts: PartsOf, _scheme: Annotated[object, Depends(operator_scheme)]
) -> None:
    """Raises Problem."""
    secret = parts.settings.api_token
    expected = secret.get_secret_value().strip().encode() if secret else b""
    if not expected:
        raise Problem(403, "the operator API is off: set API_TOKEN")
    given = bearer_token(request)
    if given is None or not hmac.compare_digest(given, expected):
        raise Problem(401, "the operator's token is needed", headers={"WWW-Authenticate": "Bearer"})


IdPath = Annotated[str, Path(max_length=64)]
Limit = Annotated[int, Query(ge=1, le=200)]
Cursor = Annotated[str | None, Query(max_length=200)]


def place_of(cursor: str | None) -> Place | None:
    """Raises Problem 422."""
    try:
        return None if cursor is None else Place.decode(cursor)
    except BadCursor:
        raise bad_cursor() from None


def bad_cursor() -> Problem:
    return Problem(422, "`cursor` is not one that this API gave out")


def unknown(what: str) -> Problem:
    return Problem(404, f"there is no such {what}")


def clean_id(text: str, what: str) -> str:
    """PostgreSQL refuses NUL in a comparison; nothing has such an id. Raises Problem 404."""
    if "\x00" in text:
        raise unknown(what)
    return text
