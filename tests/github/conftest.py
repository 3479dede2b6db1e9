"""A simulated GitHub with alice's repository, our App installed on it, and the gateway under test."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.domain.errors import RetryAt
from app.domain.ids import InstallationId, RepoId
from app.domain.ports import RepoRef
from app.github.gateway import CallSeen, GitHubAccess, GitHubGateway
from simulators.github.control import Control
from simulators.github.rest.manifest import new_key_pair
from simulators.github.server import running

_numbers = itertools.count(1)
PRIVATE_KEY, PUBLIC_KEY = new_key_pair()
PERMISSIONS = {
    "actions": "read",
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "metadata": "read",
    "pull_requests": "write",
}


@dataclass
class Clock:
    """Real time plus what a test adds."""

    ahead: timedelta = timedelta()

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@dataclass
class OpenPace:
    """Lets everything through until a limit was reported, and remembers what was asked."""

    clock: Clock
    writes: int = 0
    reads: int = 0
    limits: dict[InstallationId, datetime] = field(default_factory=dict)

    async def before_read(self, installation_id: InstallationId) -> None:
        self.reads += 1
        self._check(installation_id)

    async def before_write(self, installation_id: InstallationId) -> None:
        self.writes += 1
        self._check(installation_id)

    async def after_limit(self, installation_id: InstallationId, at: datetime) -> None:
        self.limits[installation_id] = at

    def _check(self, installation_id: InstallationId) -> None:
        at = self.limits.get(installation_id)
        if at is not None and at > self.clock():
            raise RetryAt("a limit is in force", at, scope="installation")


@dataclass
class Stage:
    """Everything that a test of the gateway needs."""

    github: Control
    app_id: int
    installation_id: int
    repo: RepoRef
    access: GitHubAccess
    clock: Clock
    pace: OpenPace
    gateway: GitHubGateway
    calls: list[CallSeen]
    first_request: int
    bare: Path
    """The repository on GitHub's own disk."""

    @property
    def name(self) -> str:
        return self.repo.full_name

    def head(self, branch: str = "main") -> str:
        return str(self.github.refs(self.name)[f"refs/heads/{branch}"])

    def writes(self) -> list[dict[str, Any]]:
        """Successful changes of this test, in the log's shape."""
        return self.github.writes(after=self.first_request)

    def requests(self, ending: str = "") -> list[dict[str, Any]]:
        log = self.github.requests(after=self.first_request)
        return [one for one in log if one["path"].split("?")[0].endswith(ending)]

    def labels(self) -> list[str]:
        """The repository's labels, as its page of labels lists them."""
        token = self.github.token(self.installation_id)
        answer = httpx.get(
            f"{self.access.api_url}/repos/{self.name}/labels?per_page=100",
            headers={"Authorization": f"Bearer {token}"},
            trust_env=False,
        )
        return [label["name"] for label in answer.json()]

    def another_gateway(self) -> GitHubGateway:
        """As a second worker process has it: nothing shared but GitHub."""
        return GitHubGateway(self.access, self.clock, OpenPace(self.clock), self.calls.append)

    async def add_repo(self, name: str, **fields: Any) -> RepoRef:
        made = self.github.create_repo("alice", name, **fields)
        return RepoRef(InstallationId(self.installation_id), RepoId(made["id"]), "alice", name)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    """One per module: starting a server takes longer than most tests."""
    with running(tmp_path_factory.mktemp("github")) as (_, control):
        for login in ("alice", "carol", "bob", "dave"):
            control.create_user(login)
        yield control


@pytest.fixture
async def stage(simulated: Control) -> AsyncIterator[Stage]:
    number = next(_numbers)
    name = f"demo{number}"
    repo = simulated.create_repo("alice", name, {"README.md": "# Demo\n", "docs/a.md": "a\n"})
    simulated.set_collaborator(f"alice/{name}", "carol", "write")
    simulated.set_collaborator(f"alice/{name}", "bob", "read")
    app = simulated.create_app(
        f"Issuewright {number}", "alice", PERMISSIONS, ["issues"], public_key=PUBLIC_KEY
    )
    installation = simulated.install(app["id"], "alice")
    clock = Clock()
    access = GitHubAccess(simulated.url, simulated.url, app["id"], PRIVATE_KEY)
    calls: list[CallSeen] = []
    pace = OpenPace(clock)
    gateway = GitHubGateway(access, clock, pace, calls.append)
    ref = RepoRef(InstallationId(installation["id"]), RepoId(repo["id"]), "alice", name)
    first = max((one["number"] for one in simulated.requests()), default=0)
    yield Stage(
        simulated,
        app["id"],
        installation["id"],
        ref,
        access,
        clock,
        pace,
        gateway,
        calls,
        first,
        Path(repo["path"]),
    )
    simulated.clear_faults()
    await gateway.aclose()
