"""Installation tokens: narrowed to one repository and one purpose, minted once for all who wait, never shown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from app.domain.errors import Denied, Gone, Refused, Unexpected
from app.domain.ids import InstallationId, RepoId
from app.github.access import Clock, GitHubAccess

_MARGIN = timedelta(minutes=10)
"""A token with less left is replaced, so that no step meets its end."""


class Purpose(StrEnum):
    """What a token is for. Few on purpose: each is one more token per repository and hour."""

    WORK = "work"
    FETCH = "fetch"
    PUSH = "push"
    LISTING = "listing"


PERMISSIONS: Mapping[Purpose, Mapping[str, str]] = {
    # WORK is every call of the API on one repository; git gets no more than contents.
    Purpose.WORK: {
        "actions": "read",
        "checks": "write",
        "contents": "write",
        "issues": "write",
        "metadata": "read",
        "pull_requests": "write",
    },
    Purpose.FETCH: {"contents": "read", "metadata": "read"},
    Purpose.PUSH: {"contents": "write", "metadata": "read"},
    Purpose.LISTING: {"metadata": "read"},
}

_LEVELS: Mapping[str, int] = {"read": 1, "write": 2, "admin": 3}


@dataclass(frozen=True)
class Scope:
    """Which token: of one installation, for one purpose, on one repository (None: all, LISTING only)."""

    installation_id: InstallationId
    purpose: Purpose
    repo_id: RepoId | None = None


@dataclass(frozen=True)
class Token:
    """`lacks`: permissions that the purpose asks for and the installation does not grant, by name and level granted."""

    value: str = field(repr=False)
    expires_at: datetime
    lacks: frozenset[tuple[str, str]] = frozenset()


AppCall = Callable[[str, str, Mapping[str, Any] | None], Awaitable[Any]]
"""(method, path, json) → answer's JSON, called as the App itself; raises OutsideError."""

_CacheKey = tuple[str, int, Scope]


class Tokens:
    """The tokens of one process. Keys carry host and App, so no token can reach another GitHub."""

    def __init__(self, access: GitHubAccess, clock: Clock, call_as_app: AppCall) -> None:
        self._identity = (access.host, access.app_id)
        self._clock = clock
        self._call_as_app = call_as_app
        self._kept: dict[_CacheKey, Token] = {}
        self._minting: dict[_CacheKey, asyncio.Task[Token]] = {}

    async def fetch(self, scope: Scope) -> Token:
        """A token with at least ten minutes left. Concurrent callers share one request.

        Raises Denied (`suspended`, `credentials`, `permission`), Gone (no such installation), RetryAt.
        """
        key = self._key(scope)
        kept = self._kept.get(key)
        if kept is not None and kept.expires_at - _MARGIN > self._clock():
            return kept
        task = self._minting.get(key)
        if task is None:
            task = asyncio.create_task(self._mint(key))
            self._minting[key] = task
            task.add_done_callback(lambda done: self._minted(key, done))
        # Shielded: one caller that is cancelled must not fail the others.
        return await asyncio.shield(task)

    def drop(self, scope: Scope, token: Token) -> None:
        """Forget `token`, unless a newer one has taken its place."""
        key = self._key(scope)
        if self._kept.get(key) == token:
            del self._kept[key]

    async def aclose(self) -> None:
        for task in list(self._minting.values()):
            task.cancel()
        await asyncio.gather(*self._minting.values(), return_exceptions=True)
        self._kept.clear()

    def _key(self, scope: Scope) -> _CacheKey:
        return (*self._identity, scope)

    def _minted(self, key: _CacheKey, task: asyncio.Task[Token]) -> None:
        self._minting.pop(key, None)
        if not task.cancelled():
            task.exception()  # looked at, so that a failure nobody waits for any more is no warning

    async def _mint(self, key: _CacheKey) -> Token:
        scope = key[2]
        wanted = PERMISSIONS[scope.purpose]
        try:
            token = await self._request(scope, wanted)
        except Refused as refused:
            token = await self._mint_less(scope, wanted, refused)
        now = self._clock()
        self._kept = {other: kept for other, kept in self._kept.items() if kept.expires_at > now}
        self._kept[key] = token
        return token

    async def _mint_less(self, scope: Scope, wanted: Mapping[str, str], refused: Refused) -> Token:
        """After a 422: either the installation grants less (work with that), or the repository is not in it."""
        granted = await self._granted(scope, wanted)
        if granted != dict(wanted):
            try:
                token = await self._request(scope, granted)
                less = {(name, granted.get(name, "")) for name in wanted if granted.get(name) != wanted[name]}
                return replace(token, lacks=frozenset(less))
            except Refused as again:
                refused = again
        if scope.repo_id is not None:
            raise Gone(f"the installation does not reach this repository: {refused}") from refused
        raise Denied(f"no token for this installation: {refused}") from refused

    async def _request(self, scope: Scope, permissions: Mapping[str, str]) -> Token:
        body: dict[str, Any] = {"permissions": dict(permissions)}
        if scope.repo_id is not None:
            body["repository_ids"] = [scope.repo_id]
        path = f"/app/installations/{scope.installation_id}/access_tokens"
        answer = await self._call_as_app("POST", path, body)
        try:
            return Token(answer["token"], _aware(datetime.fromisoformat(answer["expires_at"])))
        except (KeyError, TypeError, ValueError):
            raise Unexpected("GitHub's answer holds no token") from None

    async def _granted(self, scope: Scope, wanted: Mapping[str, str]) -> dict[str, str]:
        answer = await self._call_as_app("GET", f"/app/installations/{scope.installation_id}", None)
        has = answer.get("permissions") if isinstance(answer, dict) else None
        if not isinstance(has, dict):
            raise Unexpected("GitHub's answer holds no permissions")
        if answer.get("suspended_at"):
            raise Denied("this installation is suspended", reason="suspended")
        lower = {
            name: min(level, str(has.get(name, "")), key=lambda value: _LEVELS.get(value, 0))
            for name, level in wanted.items()
        }
        return {name: level for name, level in lower.items() if level in _LEVELS}


def _aware(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a time without a zone")
    return moment
