"""How git speaks to GitHub: the token's way in, redirects, and what a failure means.

The token travels in the environment of one git process (as a header for the remote's own origin): never in the
address, on a command line or in a configuration file, so nothing of it is left when the process has ended.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import TypeVar
from urllib.parse import urlsplit

import httpx

from app.domain.secrets_scan import redact
from app.git.command import GitFailed, GitTimedOut

T = TypeVar("T")

_REDIRECTS = {301, 302, 303, 307, 308}
_MAX_HOPS = 3
_MESSAGE_CHARS = 2000


class RemoteFailure(StrEnum):
    """What a failed conversation with the remote means for whoever wanted something."""

    DENIED = "denied"
    GONE = "gone"
    RETRY = "retry"
    OTHER = "other"


_SIGNS: tuple[tuple[RemoteFailure, re.Pattern[str]], ...] = (
    (
        RemoteFailure.GONE,
        re.compile(
            r"returned error: (30\d|404|410|451)|repository '[^']*' not found|Repository not found",
            re.IGNORECASE,
        ),
    ),
    (
        RemoteFailure.DENIED,
        re.compile(
            r"returned error: (401|403)|could not read (Username|Password)|Authentication failed"
            r"|Permission to \S+ denied|archived so it is read-only|Invalid username or (password|token)"
            r"|protocol '\w+' not allowed",
            re.IGNORECASE,
        ),
    ),
    (
        RemoteFailure.RETRY,
        re.compile(
            r"returned error: (408|429|5\d\d)|Could not resolve host|Failed to connect|Couldn't connect"
            r"|Connection (reset|refused|timed out)|Operation timed out|Operation too slow|timed out"
            r"|Empty reply|RPC failed|early EOF|unexpected disconnect|hung up unexpectedly|SSL_|TLS"
            r"|transfer closed|Recv failure|Send failure|expected flush|invalid index-pack output",
            re.IGNORECASE,
        ),
    ),
)


def classify_failure(error: GitFailed) -> RemoteFailure:
    """The meaning of a failed fetch, ls-remote or push, judged by git's own words (in the C locale)."""
    if isinstance(error, GitTimedOut):
        return RemoteFailure.RETRY
    for failure, pattern in _SIGNS:
        if pattern.search(error.stderr):
            return failure
    return RemoteFailure.OTHER


def readable_message(stderr: str, token: str) -> str:
    """What the other side said, fit for people and logs: no credential, no control characters, at most 2,000."""
    text = stderr
    for secret in (token, _basic(token)):
        if secret:
            text = text.replace(secret, "[redacted]")
    text = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", redact(text))
    lines = (
        re.sub(r"^remote: ?", "", re.sub(r"[^\x20-\x7e\u00a0-\uffff]", "", line))
        for line in text.splitlines()
    )
    return "\n".join(line.rstrip() for line in lines if line.strip())[-_MESSAGE_CHARS:]


def credential_environment(url: str, token: str) -> Mapping[str, str]:
    """`extra_env` for git commands that speak to `url`: the header for that origin only, and no redirects.

    git would go on sending the header after a redirect to another host; `on_remote` follows renames instead.
    """
    settings = {
        "http.followRedirects": "false",
        "http.lowSpeedLimit": "1000",
        "http.lowSpeedTime": "30",
    }
    if token:
        settings[f"http.{_origin(url)}/.extraHeader"] = f"Authorization: Basic {_basic(token)}"
    environment = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings.items()):
        environment[f"GIT_CONFIG_KEY_{number}"] = key
        environment[f"GIT_CONFIG_VALUE_{number}"] = value
    return environment


async def on_remote(url: str, token: str, ask: Callable[[str, Mapping[str, str]], Awaitable[T]]) -> T:
    """`ask(url, extra_env)`; when the repository was renamed, once more at its new address on the same origin."""
    try:
        return await ask(url, credential_environment(url, token))
    except GitFailed as error:
        if not re.search(r"returned error: 30[12378]", error.stderr):
            raise
        moved = await _find_new_address(url, token)
        if moved is None:
            raise
    return await ask(moved, credential_environment(moved, token))


async def _find_new_address(url: str, token: str) -> str | None:
    """Where the redirects of a renamed repository lead; None when that is another origin, or no repository."""
    suffix = "/info/refs"
    headers = {"Authorization": f"Basic {_basic(token)}"} if token else {}
    address = url.rstrip("/")
    async with httpx.AsyncClient(trust_env=False, timeout=10, follow_redirects=False) as client:
        for _ in range(_MAX_HOPS):
            try:
                async with client.stream(
                    "GET", address + suffix, params={"service": "git-upload-pack"}, headers=headers
                ) as answer:
                    status, location = answer.status_code, answer.headers.get("location", "")
                    target = str(answer.url.join(location)) if location else ""
            except (httpx.HTTPError, httpx.InvalidURL):
                return None
            if status not in _REDIRECTS:
                return address if address != url.rstrip("/") else None
            path = urlsplit(target).path
            if _origin(target) != _origin(url) or not path.endswith(suffix):
                return None
            address = _origin(target) + path.removesuffix(suffix)
    return None


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _basic(token: str) -> str:
    return base64.b64encode(f"x-access-token:{token}".encode()).decode() if token else ""
