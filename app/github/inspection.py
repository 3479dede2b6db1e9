"""Looks at the App from outside its daily work, for `issuewright doctor`: who GitHub says it is, what it may do, what
its webhook does. One plain request per question, nothing is tried again or remembered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import httpx

from app.domain.errors import RetryAt
from app.github.access import AppSigner, GitHubAccess
from app.github.answers import parse_answer
from app.github.clock import answered_at
from app.github.errors import SERVER_PAUSE, classify_response
from app.github.parts import Account, Id

_TIMEOUT = httpx.Timeout(6, connect=4)
_PAGE = 100

Shape = TypeVar("Shape")


@dataclass(frozen=True)
class AppSeen:
    """`GET /app`."""

    id: Id
    slug: str
    html_url: str = ""
    owner: Account | None = None
    permissions: dict[str, str] = field(default_factory=dict)
    events: tuple[str, ...] = ()


@dataclass(frozen=True)
class InstallationSeen:
    id: Id
    html_url: str = ""
    account: Account | None = None
    permissions: dict[str, str] = field(default_factory=dict)
    events: tuple[str, ...] = ()
    suspended_at: str | None = None


@dataclass(frozen=True)
class HookSeen:
    """`GET /app/hook/config`; the secret itself is never shown, only stars where there is one."""

    url: str = ""
    content_type: str = "form"
    insecure_ssl: str | int = "0"
    secret: str | None = None


@dataclass(frozen=True)
class DeliverySeen:
    """One attempt. `status_code` 0: no answer came."""

    id: Id
    guid: str
    delivered_at: str
    event: str
    status: str
    status_code: int

    @property
    def arrived(self) -> bool:
        return 200 <= self.status_code < 300

    @property
    def at(self) -> datetime:
        return datetime.fromisoformat(self.delivered_at)


class Inspection:
    """One look at one App. Signs by GitHub's own clock, so that a wrong clock here spoils no other verdict.

    Methods raise OutsideError.
    """

    def __init__(self, access: GitHubAccess) -> None:
        self._access = access
        self._client = httpx.AsyncClient(timeout=_TIMEOUT, trust_env=False, follow_redirects=False)
        self._signer = AppSigner(access, self._github_now)
        self._asked_time: asyncio.Task[timedelta] | None = None
        self._asked_app: asyncio.Task[AppSeen] | None = None
        self._skew = timedelta()

    async def fetch_skew(self) -> timedelta:
        """How far GitHub's clock is ahead of this machine's, to about a second. Asked once."""
        if self._asked_time is None:
            self._asked_time = asyncio.create_task(self._ask_time())
        return await asyncio.shield(self._asked_time)

    async def fetch_app(self) -> AppSeen:
        """Asked once."""
        if self._asked_app is None:
            self._asked_app = asyncio.create_task(self._ask_app())
        return await asyncio.shield(self._asked_app)

    async def fetch_installations(self) -> list[InstallationSeen]:
        """At most a hundred."""
        return parse_answer(
            list[InstallationSeen], await self._ask("GET", f"/app/installations?per_page={_PAGE}")
        )

    async def fetch_hook(self) -> HookSeen:
        return parse_answer(HookSeen, await self._ask("GET", "/app/hook/config"))

    async def fetch_deliveries(self) -> list[DeliverySeen]:
        """The newest thirty, newest first."""
        return parse_answer(list[DeliverySeen], await self._ask("GET", "/app/hook/deliveries?per_page=30"))

    async def ensure_sent_again(self, delivery: DeliverySeen) -> None:
        """Has GitHub send a delivery once more, under its GUID: who has it already does nothing new."""
        await self._ask("POST", f"/app/hook/deliveries/{delivery.id}/attempts")

    async def aclose(self) -> None:
        asked = [task for task in (self._asked_time, self._asked_app) if task is not None]
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        await self._client.aclose()

    async def _ask_app(self) -> AppSeen:
        return parse_answer(AppSeen, await self._ask("GET", "/app"))

    async def _ask_time(self) -> timedelta:
        before = datetime.now(UTC)
        response = await self._reached(lambda: self._client.get(f"{self._access.api_url}/meta"))
        middle = before + (datetime.now(UTC) - before) / 2
        there = answered_at(response)
        if there is None:
            raise RetryAt("GitHub's answer holds no time", datetime.now(UTC) + SERVER_PAUSE)
        # The header leaves out the fraction of the second: half a one on average.
        self._skew = there + timedelta(milliseconds=500) - middle
        return self._skew

    async def _ask(self, method: str, path: str) -> httpx.Response:
        await self.fetch_skew()
        headers = {
            "Authorization": f"Bearer {self._signer.sign()}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": self._access.api_version,
            "User-Agent": "issuewright",
        }
        url = self._access.api_url + path
        response = await self._reached(lambda: self._client.request(method, url, headers=headers))
        if not response.is_success:
            raise classify_response(response, self._github_now())
        return response

    async def _reached(self, call: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
        try:
            return await call()
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            at = datetime.now(UTC) + SERVER_PAUSE
            raise RetryAt(f"{self._access.api_url} can't be reached: {reason}", at) from None

    def _github_now(self) -> datetime:
        return datetime.now(UTC) + self._skew


def lacking(wanted: dict[str, Any], granted: dict[str, str]) -> list[str]:
    """What of `wanted` (permission to level) is not granted, as `name: level`."""
    levels = {"read": 1, "write": 2, "admin": 3}
    return [
        f"{name}: {level}"
        for name, level in wanted.items()
        if levels.get(granted.get(name, ""), 0) < levels[level]
    ]
