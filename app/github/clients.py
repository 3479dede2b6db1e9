"""One call to GitHub: credentials, pace, deadline, redirects, the few retries that are safe, and the verdict."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx
import structlog

from app.domain.errors import Denied, Gone, OutsideError, RetryAt, Unexpected
from app.domain.ids import InstallationId, RepoId
from app.domain.ports import RepoRef
from app.github.access import AppSigner, Clock, GitHubAccess
from app.github.answers import parse_answer, parse_entries
from app.github.clock import GitHubTime
from app.github.errors import SERVER_PAUSE, classify, classify_graphql, classify_response
from app.github.pace import Pace
from app.github.tokens import Purpose, Scope, Token, Tokens
from app.github.transport import SharedTransport

if TYPE_CHECKING:
    from githubkit import GitHub

_log = structlog.get_logger(__name__)

_TIMEOUT = httpx.Timeout(10, connect=5)
_RETRIES = 2
_MISSING_PAUSES_S = (0.3, 0.8)
"""What an event names may not be readable yet in the moment after it."""

_MAX_REDIRECTS = 3
_REDIRECTS = frozenset({301, 302, 307, 308})
_REPOSITORY_PATH = re.compile(r"/repositories/(\d+)(?:/|$)")
_PAGE_SIZE = 100
_PAGES = 50
"""Budget of one listing: 5,000 entries."""


@dataclass(frozen=True)
class CallSeen:
    """One request that left this process, for counters. `status` None: no answer came."""

    installation_id: InstallationId | None
    write: bool
    status: int | None
    seconds: float


OnCall = Callable[[CallSeen], None]
Shape = TypeVar("Shape")


@dataclass(frozen=True)
class Ask:
    """One call. `path` is absolute below the API base, or a whole URL on the API host.

    `scope` None speaks as the App, `anonymous` as nobody.
    `patient` waits a little for things that an event has just named.
    """

    method: str
    path: str
    scope: Scope | None = None
    params: Mapping[str, str | int] = field(default_factory=dict)
    json: Mapping[str, Any] | Sequence[Any] | None = None
    patient: bool = False
    anonymous: bool = False
    query: bool = False
    """Reads, although it is a POST: GraphQL knows no other method."""
    linked: bool = False
    """Answered by a link (302) to where no token may go; that answer is what is wanted."""

    @property
    def is_write(self) -> bool:
        return self.method not in {"GET", "HEAD"} and not self.query


class Api:
    """Calls one GitHub. Raises RetryAt, Gone, Denied, Refused or Unexpected, nothing else."""

    def __init__(self, access: GitHubAccess, clock: Clock, pace: Pace, on_call: OnCall) -> None:
        self.access = access
        self.clock = clock
        self.pace = pace
        self._on_call = on_call
        self._time = GitHubTime(clock)
        self._signer = AppSigner(access, self._time)
        self._transport = SharedTransport()
        self._client: GitHub[Any] | None = None
        self.tokens = Tokens(access, self._time, self._call_as_app)

    # ------------------------------------------------------------ for the families

    async def fetch(self, shape: type[Shape], ask: Ask) -> Shape:
        """The answer of one call as `shape`."""
        return parse_answer(shape, await self.call(ask))

    async def pages(self, shape: type[Shape], ask: Ask, key: str | None = None) -> list[Shape]:
        """All entries of a listing, at most 5,000. `key` names the list inside an object."""
        found: list[Shape] = []
        params: Mapping[str, str | int] = {"per_page": _PAGE_SIZE, **ask.params}
        step = Ask(ask.method, ask.path, ask.scope, params, None, ask.patient)
        for _ in range(_PAGES):
            response = await self.call(step)
            found.extend(parse_entries(shape, response, key))
            following = response.links.get("next", {}).get("url")
            if not following:
                return found
            step = Ask("GET", self._on_our_host(following), ask.scope)
        _log.warning("listing.truncated", path=ask.path, entries=len(found))
        return found

    async def graphql(
        self, scope: Scope, query: str, variables: Mapping[str, Any], *, reads: bool = False
    ) -> Mapping[str, Any]:
        """The `data` of a mutation, or of a query (`reads`). GraphQL says what went wrong with status 200."""
        body = {"query": query, "variables": dict(variables)}
        response = await self.call(Ask("POST", self.access.graphql_url, scope, json=body, query=reads))
        answer = parse_answer(dict[str, Any], response)
        errors = answer.get("errors")
        if errors:
            error = classify_graphql([e for e in errors if isinstance(e, dict)], self.clock())
            raise await self._remembered(scope, error)
        data = answer.get("data")
        if not isinstance(data, dict):
            raise Unexpected("GitHub's GraphQL answer holds no data")
        return data

    async def call(self, ask: Ask) -> httpx.Response:
        """One successful answer (2xx). Only reads are tried again, and a call whose token was refused."""
        try:
            async with asyncio.timeout(self.access.patience_s):
                return await self._call(ask)
        except TimeoutError:
            raise RetryAt("GitHub did not answer in time", self.clock() + SERVER_PAUSE) from None

    def load(self) -> None:
        """Import what the first call needs."""
        self._github()

    async def aclose(self) -> None:
        await self.tokens.aclose()
        await self._transport.close_pool()

    # ------------------------------------------------------------ one call

    async def _call(self, ask: Ask) -> httpx.Response:
        if ask.scope is not None:
            # Once per call: a redirect or a replaced token is still the same write.
            gate = self.pace.before_write if ask.is_write else self.pace.before_read
            await gate(ask.scope.installation_id)
        failures = missing = 0
        while True:
            try:
                return await self._authorized(ask)
            except Gone:
                if not ask.patient or missing >= len(_MISSING_PAUSES_S):
                    raise
                await asyncio.sleep(_MISSING_PAUSES_S[missing])
                missing += 1
            except RetryAt as later:
                if ask.is_write or later.scope != "call" or failures >= _RETRIES:
                    raise
                failures += 1
                await asyncio.sleep(random.uniform(0.05, 0.25) * failures)

    async def _authorized(self, ask: Ask) -> httpx.Response:
        """The call with a token, and once more with a new one when GitHub no longer takes the first."""
        if ask.scope is None:
            return await self._follow(ask, None)
        token = await self.tokens.fetch(ask.scope)
        try:
            return await self._follow(ask, token)
        except Denied as denied:
            # More may have been granted since a token that lacks something was made.
            if denied.reason != "credentials" and not (denied.reason == "permission" and token.lacks):
                raise
            refused = denied
        self.tokens.drop(ask.scope, token)
        fresh = await self.tokens.fetch(ask.scope)
        if refused.reason == "permission" and fresh.lacks == token.lacks:
            raise refused
        return await self._follow(ask, fresh)

    async def _follow(self, ask: Ask, token: Token | None) -> httpx.Response:
        url, params = ask.path, dict(ask.params)
        for _ in range(_MAX_REDIRECTS + 1):
            signed_at = self._time()
            response = await self._send(ask, url, params, token)
            signed = token is None and not ask.anonymous
            refused = signed and response.status_code == httpx.codes.UNAUTHORIZED
            if refused and self._time.learn(response, signed_at):
                response = await self._send(ask, url, params, token)
            if ask.linked and response.status_code == httpx.codes.FOUND:
                return response
            if response.status_code not in _REDIRECTS:
                if response.is_success:
                    return response
                raise await self._remembered(ask.scope, classify_response(response, self.clock()))
            # httpx would turn a POST into a GET here; GitHub means the same request at another place.
            location = urljoin(str(response.url), response.headers.get("location", ""))
            url, params = self._on_our_host(location), {}
            _check_same_repository(url, ask.scope)
        raise Unexpected("GitHub redirects in a circle")

    async def _send(
        self, ask: Ask, url: str, params: Mapping[str, str | int], token: Token | None
    ) -> httpx.Response:
        from githubkit.exception import GitHubException, RequestFailed  # noqa: PLC0415 (heavy)

        headers = {"X-GitHub-Api-Version": self.access.api_version, **self._authorization(ask, token)}
        started = time.monotonic()
        response: httpx.Response | None = None
        try:
            answer = await self._github().arequest(
                ask.method, url, params=dict(params) or None, json=ask.json, headers=headers
            )
            response = answer.raw_response
        except RequestFailed as failed:
            response = failed.response.raw_response
        except GitHubException as error:
            raise classify(error, self.clock()) from None  # the cause holds the request and its token
        finally:
            status = response.status_code if response is not None else None
            installation_id = ask.scope.installation_id if ask.scope else None
            self._on_call(CallSeen(installation_id, ask.is_write, status, time.monotonic() - started))
        return response

    def _authorization(self, ask: Ask, token: Token | None) -> dict[str, str]:
        if ask.anonymous:
            return {}
        return {"Authorization": f"Bearer {token.value if token else self._signer.sign()}"}

    def _github(self) -> GitHub[Any]:
        if self._client is None:
            from githubkit import GitHub  # noqa: PLC0415 (heavy: 0.3 s and 40 MB that the web process spares)

            self._client = GitHub(
                base_url=self.access.api_url,
                user_agent="issuewright",
                follow_redirects=False,
                timeout=_TIMEOUT,
                trust_env=False,
                async_transport=self._transport,
                http_cache=False,
                auto_retry=False,
            )
        return self._client

    async def _call_as_app(self, method: str, path: str, json: Mapping[str, Any] | None) -> Any:
        return parse_answer(dict[str, Any], await self.call(Ask(method, path, json=json)))

    async def _remembered(self, scope: Scope | None, error: OutsideError) -> OutsideError:
        if scope is not None and isinstance(error, RetryAt) and error.scope == "installation":
            await self.pace.after_limit(scope.installation_id, error.at)
        return error

    def _on_our_host(self, url: str) -> str:
        """`url`, if a token may be sent there: the API's own scheme, host and port."""
        parts = urlsplit(url)
        if f"{parts.scheme}://{parts.netloc}".lower() != self.access.host:
            raise Unexpected(f"GitHub points to another host: {parts.hostname}")
        return url


def _check_same_repository(url: str, scope: Scope | None) -> None:
    """A renamed repository keeps its number; another number means that the thing moved away (a transfer)."""
    target = _REPOSITORY_PATH.search(urlsplit(url).path)
    if target and scope and scope.repo_id is not None and int(target[1]) != scope.repo_id:
        raise Gone("it was moved to another repository")


def work_on(repo: RepoRef) -> Scope:
    """The scope of every API call on one repository."""
    return Scope(repo.installation_id, Purpose.WORK, RepoId(repo.repo_id))
