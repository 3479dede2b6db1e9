"""One table from everything that a call to GitHub can fail with to what we do about it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from app.domain.errors import Denied, Gone, OutsideError, Refused, RetryAt, Unexpected
from app.github.clock import answered_at

SERVER_PAUSE = timedelta(seconds=5)
"""After a 5xx or a broken connection; callers that fail again and again add their own growing delay."""

LIMIT_PAUSE = timedelta(seconds=60)
"""GitHub's rule for a secondary limit without Retry-After: wait at least a minute."""

LONGEST_PAUSE = timedelta(hours=2)
"""Limits are renewed each hour; a later time in a header is nonsense and would park work for good."""

_DENIALS: Sequence[tuple[str, str]] = (
    # (words of GitHub's message, our stable reason)
    ("suspended", "suspended"),
    ("archived", "archived"),
    ("blocked", "blocked"),  # before "locked", which is a part of it
    ("locked", "locked"),
    ("disabled", "blocked"),
)

_REFUSALS: Sequence[tuple[str, str]] = (
    # (words of GitHub's message or of one of its errors, our stable code); first match counts
    ("reference already exists", "ref_exists"),
    ("reference does not exist", "ref_missing"),
    ("cannot create", "ref_blocked"),
    ("cannot lock ref", "ref_blocked"),
    ("not a fast forward", "not_fast_forward"),
    ("a pull request already exists", "already_exists"),
    ("no commits between", "no_commits"),
    ("too long", "body_too_long"),
    ("draft pull requests are not supported", "drafts_unsupported"),
    ("from collaborators", "not_collaborator"),
    ("pull request author", "is_author"),
    ("object does not exist", "missing_object"),
    ("no commit found", "missing_object"),
)

_GRAPHQL: Mapping[str, str] = {"NOT_FOUND": "gone", "FORBIDDEN": "denied", "UNPROCESSABLE": "refused"}


def classify(error: Exception, now: datetime) -> OutsideError:
    """What a failed call means. `error` is githubkit's or httpx's; `now` is aware UTC.

    RetryAt (scope `installation` for rate limits), Gone, Denied, Refused or Unexpected; errors that are
    already ours come back as they are.
    """
    if isinstance(error, OutsideError):
        return error
    # githubkit is heavy (0.3 s, 40 MB) and must not load with the web process.
    from githubkit.exception import GraphQLFailed, RequestError, RequestFailed  # noqa: PLC0415

    if isinstance(error, RequestFailed):
        return classify_response(error.response.raw_response, now)
    if isinstance(error, GraphQLFailed):
        listed = [{"type": found.type, "message": found.message} for found in error.response.errors or []]
        return classify_graphql(listed, now)
    cause: BaseException = error.exc if isinstance(error, RequestError) else error
    if isinstance(cause, httpx.HTTPStatusError):
        return classify_response(cause.response, now)
    if isinstance(cause, httpx.TransportError | TimeoutError | OSError):
        return RetryAt(f"GitHub can't be reached: {type(cause).__name__}", now + SERVER_PAUSE)
    return Unexpected(f"{type(cause).__name__} while calling GitHub")


def classify_response(response: httpx.Response, now: datetime) -> OutsideError:
    """What an answer other than 2xx means."""
    status = response.status_code
    body = _error_body(response)
    said = _said(body)
    text = f"GitHub answered {status}: {said}" if said else f"GitHub answered {status}"
    verdict: OutsideError = Unexpected(text)
    if status >= 500 or status == 408:
        verdict = RetryAt(text, now + SERVER_PAUSE)
    elif status in {403, 429}:
        verdict = _limit(response, said, now, text) or _denial(said, text + _missing_permission(response))
    elif status == 401:
        verdict = Denied(text, reason="credentials")
    elif status in {404, 410, 451}:
        verdict = Gone(text)
    elif status == 422 and "submitted too quickly" in said.lower():
        verdict = RetryAt(text, now + LIMIT_PAUSE, scope="installation")
    elif status in {405, 409, 413, 422}:
        verdict = Refused(said or text, code=_code(status, said, body))
    return verdict


def _limit(response: httpx.Response, said: str, now: datetime, text: str) -> RetryAt | None:
    lower = said.lower()
    secondary = "secondary rate" in lower or "abuse detection" in lower
    after = _number(response.headers.get("retry-after"))
    if after is not None:
        return _pause(text, now + timedelta(seconds=min(after, LONGEST_PAUSE.total_seconds())), now)
    if response.headers.get("x-ratelimit-remaining") == "0" and not secondary:
        reset = _number(response.headers.get("x-ratelimit-reset"))
        at = now + LIMIT_PAUSE
        if reset is not None:
            # By GitHub's clock, as the time of the answer; ours may differ.
            at = now + (datetime.fromtimestamp(min(reset, 2**33), UTC) - (answered_at(response) or now))
        # One second more: the header's second is not over when the limit is renewed.
        return _pause(text, at + timedelta(seconds=1), now)
    if secondary or response.status_code == 429 or "rate limit exceeded" in lower:
        return _pause(text, now + LIMIT_PAUSE, now)
    return None


def _pause(text: str, at: datetime, now: datetime) -> RetryAt:
    bounded = min(max(at, now + timedelta(seconds=1)), now + LONGEST_PAUSE)
    return RetryAt(text, bounded, scope="installation")


def _missing_permission(response: httpx.Response) -> str:
    """What GitHub names in a header only (`checks=write; contents=read`): people need to read it."""
    accepted = response.headers.get("x-accepted-github-permissions", "")
    usable = re.fullmatch(r"[a-z_=;, -]{1,200}", accepted)
    return f" (needed: {accepted.replace('=', ': ')})" if usable else ""


def _denial(said: str, text: str) -> Denied:
    lower = said.lower()
    return Denied(text, reason=next((reason for words, reason in _DENIALS if words in lower), "permission"))


def _code(status: int, said: str, body: Mapping[str, Any]) -> str:
    lower = said.lower()
    if status == 409:
        return "empty_repository" if "empty" in lower else "conflict"
    if status in {405, 413}:
        return "not_allowed" if status == 405 else "body_too_long"
    for words, code in _REFUSALS:
        if words in lower:
            return code
    codes = [_entry_code(entry) for entry in _entries(body)]
    return next(filter(None, codes), "invalid")


def _entry_code(entry: Mapping[str, Any]) -> str | None:
    code, of_field = entry.get("code"), entry.get("field")
    if of_field in {"base", "head"} and code == "invalid":
        return f"missing_{of_field}"
    return code if isinstance(code, str) and code != "custom" else None


def classify_graphql(errors: Sequence[Mapping[str, Any]], now: datetime) -> OutsideError:
    """What the `errors` of a GraphQL answer (status 200) mean; the first one with a known type counts."""
    said = "; ".join(str(error.get("message", "")) for error in errors)[:500]
    text = f"GitHub's GraphQL answered: {said}"
    types = {str(error.get("type", "")) for error in errors}
    if types & {"RATE_LIMIT", "RATE_LIMITED"} or "secondary rate" in said.lower():
        return RetryAt(text, now + LIMIT_PAUSE, scope="installation")
    meanings = {_GRAPHQL[kind] for kind in types if kind in _GRAPHQL}
    if "gone" in meanings:
        return Gone(text)
    if "denied" in meanings:
        return _denial(said, text)
    if "refused" in meanings:
        return Refused(said, code="unprocessable")
    if types & {"INTERNAL", "SERVICE_UNAVAILABLE"} or "something went wrong" in said.lower():
        return RetryAt(text, now + SERVER_PAUSE)
    return Unexpected(text)


def _error_body(response: httpx.Response) -> Mapping[str, Any]:
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError, httpx.ResponseNotRead):
        return {}
    return body if isinstance(body, dict) else {}


def _entries(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    errors = body.get("errors")
    return [entry for entry in errors if isinstance(entry, dict)] if isinstance(errors, list) else []


def _said(body: Mapping[str, Any]) -> str:
    """GitHub's message with the messages of its single errors, capped: it may be shown to people."""
    parts = [str(body["message"])] if isinstance(body.get("message"), str) else []
    errors = body.get("errors")
    for entry in errors if isinstance(errors, list) else []:
        said = entry.get("message") if isinstance(entry, dict) else entry
        if isinstance(said, str):
            parts.append(said)
    return "; ".join(parts)[:500]


def _number(header: str | None) -> int | None:
    usable = header is not None and header.isascii() and header.isdigit() and len(header) < 12
    return int(header) if header is not None and usable else None
