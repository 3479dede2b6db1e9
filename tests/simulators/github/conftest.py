"""A simulated GitHub with one App installed on one repository, and a receiver for its webhooks."""

import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import httpx
import jwt
import pytest

from simulators.github.control import Control
from simulators.github.rest.manifest import new_key_pair
from simulators.github.server import running
from simulators.github.simulator import GitHubSimulator

PERMISSIONS = {
    "actions": "write",
    "checks": "write",
    "contents": "write",
    "issues": "write",
    "pull_requests": "write",
    "statuses": "read",
}
EVENTS = [
    "check_run",
    "check_suite",
    "create",
    "delete",
    "issue_comment",
    "issues",
    "label",
    "pull_request",
    "pull_request_review",
    "pull_request_review_comment",
    "pull_request_review_thread",
    "push",
    "repository",
    "workflow_run",
]
SECRET = "a secret for webhooks"
REPO = "alice/demo"
FILES = {"README.md": "# Demo\n", "src/app.py": "print('hello')\n"}
PRIVATE_KEY, PUBLIC_KEY = new_key_pair()


@dataclass
class Received:
    """One webhook as it arrived."""

    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> str:
        return self.headers["x-github-event"]

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


@dataclass
class Receiver:
    """A small HTTP server that keeps what it gets; ``answer`` decides the status."""

    url: str = ""
    answer: int = 202
    got: list[Received] = field(default_factory=list)

    def events(self, event: str, action: str | None = None) -> list[dict[str, Any]]:
        found = [one.json for one in list(self.got) if one.event == event]
        return [one for one in found if action in (None, one.get("action"))]


@dataclass
class Stage:
    """Everything a test needs."""

    sim: GitHubSimulator
    control: Control
    receiver: Receiver
    app: dict[str, Any]
    installation: int
    repo: dict[str, Any]

    @property
    def url(self) -> str:
        return self.control.url

    def jwt(self, **claims: Any) -> str:
        now = int(time.time())
        given = {"iss": str(self.app["id"]), "iat": now - 60, "exp": now + 540, **claims}
        return jwt.encode(given, PRIVATE_KEY, algorithm="RS256")

    def as_app(self, **claims: Any) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.jwt(**claims)}"}
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False)

    def client(
        self, permissions: dict[str, str] | None = None, repos: list[str] | None = None
    ) -> httpx.Client:
        token = self.control.token(self.installation, permissions, repos)
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {token}"}, trust_env=False)

    def remote(self, permissions: dict[str, str] | None = None, repo: str = REPO) -> str:
        token = self.control.token(self.installation, permissions)
        return f"{self.url.replace('://', f'://x-access-token:{token}@')}/{repo}.git"

    def head(self, branch: str = "main", repo: str = REPO) -> str:
        return str(self.control.refs(repo)[f"refs/heads/{branch}"])

    def wait(self, look: Callable[[], Any]) -> Any:
        return self.control.wait_for(look)

    def pull(
        self, branch: str = "feature/1-x", path: str = "new.txt", text: str = "new\n", **more: Any
    ) -> int:
        self.control.push(REPO, "alice", branch, {path: text})
        return int(self.control.open_pull(REPO, "alice", "A pull request", branch, **more)["number"])


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()

    class Endpoint(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        kept: ClassVar[Receiver] = found

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self.kept.got.append(Received({k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(self.kept.answer)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_port}/webhooks/github"
    yield found
    server.shutdown()
    server.server_close()


@pytest.fixture
def stage(tmp_path: Path, receiver: Receiver) -> Iterator[Stage]:
    with running(tmp_path / "github") as (sim, control):
        for login in ("alice", "bob", "carol", "dave"):
            control.create_user(login)
        app = control.create_app(
            "Issuewright",
            "alice",
            PERMISSIONS,
            EVENTS,
            public_key=PUBLIC_KEY,
            webhook_url=receiver.url,
            webhook_secret=SECRET,
        )
        repo = control.create_repo("alice", "demo", FILES)
        control.set_collaborator(REPO, "carol", "write")
        installation = control.install(app["id"], "alice")["id"]
        yield Stage(sim, control, receiver, app, installation, repo)
