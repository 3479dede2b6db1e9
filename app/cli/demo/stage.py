"""The processes of the demo: simulators and a whole `issuewright up`, in a state directory of their own."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import httpx

from app.cli.demo.github import Simulated
from app.domain.errors import IssuewrightError
from app.queue.child import Child, Command
from app.sandbox.daytona import DaytonaSandboxes
from app.sandbox.image import IMAGE_VERSION
from app.settings import child_environment

START_TIMEOUT_S = 60.0
LOOK_EVERY_S = 0.1
UP_GRACE_S = 40.0
_OWN_PREFIXES = ("GITHUB_", "ANTHROPIC_", "DAYTONA_", "SANDBOX_", "CLAUDE_", "ISSUEWRIGHT_", "MODEL")
_OWN_NAMES = ("DATABASE_URL", "REDIS_URL", "HOST", "PORT", "PUBLIC_URL", "API_TOKEN", "CREDENTIALS_KEY")

Found = TypeVar("Found")


@dataclass(frozen=True)
class Place:
    """Where agents work: the provider, and for a remote one how its sandboxes and the app talk (None: as they find)."""

    sandbox: str
    link: str | None = None

    def __str__(self) -> str:
        return f"{self.sandbox} sandbox" + (" behind a relay" if self.link == "relay" else "")


@dataclass
class Stage:
    """`home` holds all state and the logs of every process. Times are `time.monotonic()` seconds."""

    home: Path
    place: Place
    github: Simulated
    model_url: str
    app_url: str
    app: httpx.AsyncClient
    up: Child

    async def wait_for(
        self, look: Callable[[], Awaitable[Found | None]], what: str, within_s: float
    ) -> Found:
        """Looks ten times a second. Raises IssuewrightError when it takes too long or `up` has died."""
        deadline = time.monotonic() + within_s
        while True:
            found = await look()
            if found is not None:
                return found
            if self.up.returncode is not None:
                raise IssuewrightError(f"`issuewright up` ended with exit code {self.up.returncode}")
            if time.monotonic() > deadline:
                raise IssuewrightError(f"{what} did not happen within {within_s:.0f} s")
            await asyncio.sleep(LOOK_EVERY_S)

    async def ask(self, path: str, **query: Any) -> Any:
        """An answer of the operator API."""
        answer = await self.app.get(f"/api/v1{path}", params=query)
        answer.raise_for_status()
        return answer.json()

    async def model_calls(self) -> list[float]:
        """When the model was asked, each time."""
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.get(f"{self.model_url}/_sim/requests", params={"body": "0"})
        return [float(one["at_monotonic_s"]) for one in answer.json()["requests"]]


class Stagehand:
    """Builds the stage and clears it away again."""

    def __init__(self, *, idle_s: int) -> None:
        self._idle_s = idle_s
        self.home = Path(tempfile.mkdtemp(prefix="issuewright-demo-"))
        self._children: list[Child] = []
        self._clients: list[httpx.AsyncClient | Simulated] = []
        self._logs: list[IO[bytes]] = []

    async def build(self, place: Place, database_url: str | None = None) -> Stage:
        """Everything up and the App installed; without a `database_url` on SQLite. Raises IssuewrightError; call `clear`
        in any case.
        """
        (self.home / "logs").mkdir(mode=0o700)
        model_key = f"demo-{secrets.token_hex(16)}"
        github_url, model_url = await asyncio.gather(
            self._start_simulator("github", "--dir", str(self.home / "github")),
            self._start_simulator("model", "--api-key", model_key),
        )
        github = Simulated(github_url)
        self._clients.append(github)
        app_url = f"http://127.0.0.1:{_free_port()}"
        secret = secrets.token_hex(16)
        made = await github.create_world(f"{app_url}/webhooks/github", secret)
        token = secrets.token_hex(16)
        environment = self._environment(made, github_url, app_url) | {
            "SANDBOX_PROVIDER": place.sandbox,
            "GITHUB_WEBHOOK_SECRET": secret,
            "API_TOKEN": token,
            "ANTHROPIC_API_KEY": model_key,
            "ANTHROPIC_BASE_URL": model_url,
        }
        if database_url is not None:
            environment["DATABASE_URL"] = database_url
        if place.sandbox == DaytonaSandboxes.kind:
            environment |= await self._start_daytona(place, model_url)
        up = await self._start("up", ["app", "up"], environment, grace_s=UP_GRACE_S)
        client = httpx.AsyncClient(
            base_url=app_url, headers={"Authorization": f"Bearer {token}"}, timeout=10, trust_env=False
        )
        self._clients.append(client)
        stage = Stage(self.home, place, github, model_url, app_url, client, up)
        await stage.wait_for(lambda: _ready(client), "the start", START_TIMEOUT_S)
        await github.install(int(made["id"]))
        return stage

    async def clear(self, *, remove: bool) -> None:
        """Stops everything, the newest first, so that `up` can still tell GitHub; then removes the directory."""
        for client in self._clients:
            await client.aclose()
        for child in reversed(self._children):
            await child.stop()
        for log in self._logs:
            log.close()
        if remove:
            shutil.rmtree(self.home, ignore_errors=True)

    def _environment(self, made: dict[str, Any], github_url: str, app_url: str) -> dict[str, str]:
        """The settings of the real thing, given as an operator would; this machine's own ones stay out."""
        kept = {
            name: value
            for name, value in child_environment().items()
            if not name.startswith(_OWN_PREFIXES) and name not in _OWN_NAMES
        }
        return kept | {
            "ISSUEWRIGHT_HOME": str(self.home),
            "GITHUB_APP_ID": str(made["id"]),
            "GITHUB_APP_PRIVATE_KEY": str(made["pem"]),
            "GITHUB_API_URL": f"{github_url}/api/v3",
            "GITHUB_URL": github_url,
            "PORT": app_url.rsplit(":", 1)[1],
            "IDLE_S": str(self._idle_s),
            "LOG_FORMAT": "json",
        }

    async def _start_daytona(self, place: Place, model_url: str) -> dict[str, str]:
        """A simulated Daytona, and the settings that name it. Behind a relay its machines reach the model and nothing
        else, with this demo's own key for it.
        """
        key = f"demo-{secrets.token_hex(16)}"
        options = ("--api-key", key, "--image-version", IMAGE_VERSION, "--dir", str(self.home / "daytona"))
        url = await self._start_simulator("daytona", *options)
        settings = {"DAYTONA_API_KEY": key, "DAYTONA_API_URL": f"{url}/api", "DAYTONA_TARGET": "local"}
        if place.link is not None:
            settings["SANDBOX_LINK"] = place.link
        if place.link == "relay":
            network = {"tier": 1, "open_ports": [httpx.URL(model_url).port]}
            async with httpx.AsyncClient(trust_env=False) as client:
                answer = await client.post(f"{url}/_sim/tier/set", json=network)
            answer.raise_for_status()
            settings["MODEL_KEY_IN_SANDBOX"] = "true"
        return settings

    async def _start_simulator(self, name: str, *options: str) -> str:
        ready = self.home / f"{name}.ready"
        child = await self._start(
            name,
            ["simulators", name, "--port", "0", "--ready-file", str(ready), *options],
            child_environment(),
        )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not ready.exists():
            if child.returncode is not None or time.monotonic() > deadline:
                raise IssuewrightError(f"the simulated {name} did not start")
            await asyncio.sleep(0.02)
        return str(json.loads(ready.read_text())["url"])

    async def _start(
        self, name: str, module: list[str], environment: dict[str, str], grace_s: float = 3.0
    ) -> Child:
        # Held open while the process lives; the directory is this run's own.
        log = (self.home / "logs" / f"{name}.log").open("wb")
        self._logs.append(log)
        child = await Child.start(
            # A directory without anybody's .env or issuewright.yaml in it.
            Command(
                name,
                [sys.executable, "-P", "-m", *module],
                environment,
                cwd=self.home,
                grace_s=grace_s,
                output=log,
            )
        )
        self._children.append(child)
        return child


async def _ready(client: httpx.AsyncClient) -> bool | None:
    try:
        answer = await client.get("/readyz")
    except httpx.TransportError:
        return None
    return True if answer.status_code == 200 else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
