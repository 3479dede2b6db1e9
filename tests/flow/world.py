"""A whole running product with its simulators, as real processes: what the flow and kill tests play in."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Self, TypeVar

import httpx
import yaml

from simulators.github.control import Control
from tests.cli.running import free_port, kill, part_of
from tests.flow.combination import Servers
from tests.flow.repository import Repository
from tests.flow.simulated_daytona import DAYTONA_KEY, SimulatedDaytona
from tests.servers import DatabaseLook

Found = TypeVar("Found")

PATIENCE_S = 200.0
KEPT = httpx.Limits(keepalive_expiry=2.0)
"""Less than servers wait before they close a connection, which may be just when the next request goes out."""
_APP_MANIFEST = Path(__file__).resolve().parents[2] / "app.yml"
PEOPLE = ("alice", "carol", "dave", "bob")
"""Of every repository: alice is admin, carol and dave write, bob reads."""
LABELS = ("agent", "agent:plan", "agent:quick", "agent:approved")
OPERATORS_GIT_CONFIG = """\
[user]
    name = Operator
    email = operator@example.org
[commit]
    gpgsign = true
[core]
    autocrlf = true
[push]
    default = nothing
[filter "lfs"]
    process = git-lfs filter-process
    required = true
"""
"""What a person's machine may have in ~/.gitconfig; it must have no influence."""


class World:
    """`settings` are environment variables on top of the fast ones below. Use `World.running(...)`."""

    def __init__(
        self, provider: str, servers: Servers | None, public_port: int | None, settings: Mapping[str, str]
    ) -> None:
        self.servers = servers
        self.port = public_port or free_port()
        """Where GitHub and people find the product."""
        self.home = Path(tempfile.mkdtemp(prefix="iw-flow-", dir="/tmp"))
        self.repositories: list[Repository] = []
        """Of the test that runs now, for its failure report."""
        self.secrets = {
            "webhook": f"hookcanary{secrets.token_hex(12)}",
            "model": f"sk-ant-canary{secrets.token_hex(12)}",
            "operator": f"opcanary{secrets.token_hex(12)}",
        }
        self._provider = provider
        self._settings = (servers.settings if servers else {}) | dict(settings)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[IO[bytes]] = []
        self._count = 0
        self.up: subprocess.Popen[bytes] | None = None
        self._look = DatabaseLook(servers.database_url) if servers else None
        self._daytona: SimulatedDaytona | None = None

    @classmethod
    @contextmanager
    def running(
        cls, provider: str, servers: Servers | None = None, *, public_port: int | None = None, **settings: str
    ) -> Iterator[Self]:
        """`public_port` is that of a balancer before several web processes; PORT of `settings` is then another."""
        world = cls(provider, servers, public_port, settings)
        try:
            world._start()
            yield world
        finally:
            world._stop()

    # ------------------------------------------------------------ processes

    def _start(self) -> None:
        (self.home / "logs").mkdir()
        (self.home / "person").mkdir()
        (self.home / "person" / ".gitconfig").write_text(OPERATORS_GIT_CONFIG)
        simulators = {
            "github": ["--dir", str(self.home / "github")],
            "model": ["--api-key", self.secrets["model"]],
        }
        if self._provider == "daytona":
            simulators["daytona"] = ["--dir", str(self.home / "daytona"), "--api-key", DAYTONA_KEY]
        for name, options in simulators.items():
            ready = self.home / f"{name}.ready"
            arguments = ["simulators", name, "--ready-file", str(ready), *options]
            self.spawn(name, arguments, {"PATH": os.environ["PATH"], "HOME": str(self.home)})
        urls = {name: self.wait(partial(self._url, name), f"simulator {name}") for name in simulators}
        self.github = Control(urls["github"])
        self.model = httpx.Client(base_url=urls["model"], timeout=30, trust_env=False, limits=KEPT)
        if "daytona" in urls:
            self._daytona = SimulatedDaytona(urls["daytona"])
        self.app = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}",
            headers={"Authorization": f"Bearer {self.secrets['operator']}"},
            timeout=30,
            trust_env=False,
            limits=KEPT,
        )
        for login in PEOPLE:
            self.github.create_user(login)
        self.github.create_org("makers", ["alice"])
        manifest = yaml.safe_load(_APP_MANIFEST.read_text())
        self.github_app = self.github.create_app(
            "Issuewright", "makers", manifest["default_permissions"], manifest["default_events"],
            webhook_url=f"http://127.0.0.1:{self.port}/webhooks/github", webhook_secret=self.secrets["webhook"],
        )  # fmt: skip
        self.start_up()

    def _url(self, name: str) -> str | None:
        ready = self.home / f"{name}.ready"
        return str(json.loads(ready.read_text())["url"]) if ready.exists() else None

    @property
    def has_daytona(self) -> bool:
        """Whether agents work there."""
        return self._daytona is not None

    @property
    def daytona(self) -> SimulatedDaytona:
        """Of a world whose provider is `daytona`."""
        assert self._daytona is not None, "the agents are on this machine"
        return self._daytona

    @property
    def environment(self) -> dict[str, str]:
        """Of web and worker; short pauses, everything else as an operator has it."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home / "person"),
            "ISSUEWRIGHT_HOME": str(self.home / "state"),
            "GITHUB_APP_ID": str(self.github_app["id"]),
            "GITHUB_APP_PRIVATE_KEY": str(self.github_app["pem"]),
            "GITHUB_WEBHOOK_SECRET": self.secrets["webhook"],
            "GITHUB_API_URL": f"{self.github.url}/api/v3",
            "GITHUB_URL": self.github.url,
            "ANTHROPIC_API_KEY": self.secrets["model"],
            "ANTHROPIC_BASE_URL": str(self.model.base_url).rstrip("/"),
            "API_TOKEN": self.secrets["operator"],
            "PORT": str(self.port),
            "SANDBOX_PROVIDER": self._provider,
            "IDLE_S": "1",
            "LOG_FORMAT": "json",
            **(self._daytona.settings if self._daytona is not None else {}),
        } | self._settings

    def start_up(self, **changes: str) -> None:
        """`issuewright up` (web, worker, Redis as its children, started again when they die), ready to work."""
        self.up = self.spawn("up", ["app", "up"], self.environment | changes)
        self.wait(self._ready, "the start of `issuewright up`")

    def shut_down(self) -> None:
        assert self.up is not None
        self.up.terminate()
        self.up.wait(timeout=60)

    def forget_crashes(self) -> None:
        shutil.rmtree(self.home / "state" / "crashed", ignore_errors=True)

    def crashed(self) -> set[str]:
        """The armed crash points that the worker has died at."""
        return {path.name for path in (self.home / "state" / "crashed").glob("*")}

    def spawn(self, name: str, module: list[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """`python -m MODULE…`; its output goes to logs/NAME.log. Ended with the world."""
        log = (self.home / "logs" / f"{name}.log").open("ab")
        self._logs.append(log)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", *module], env=dict(environment), cwd=self.home, stdout=log, stderr=log,
            stdin=subprocess.DEVNULL, process_group=0,
        )  # fmt: skip
        self._processes.append(process)
        return process

    def _ready(self) -> bool:
        assert self.up is None or self.up.poll() is None, self.log_tail("up")
        try:
            return self.app.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def children(self) -> dict[str, int]:
        """Pids of `up`'s children by what they are: web, worker, redis."""
        found: dict[str, int] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, parent = stat.read_text().rsplit(")", 1)[1].split()[:2]
                words = (stat.parent / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if self.up is not None and int(parent) == self.up.pid and state != "Z":
                found[part_of(words)] = int(stat.parent.name)
        return found

    def _stop(self) -> None:
        for process in reversed(self._processes):
            if process.poll() is not None:
                continue
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=45)
            except subprocess.TimeoutExpired:
                for pid in self.children().values():
                    kill(pid)
                process.kill()
                process.wait()
        for client in ("github", "model", "app"):
            if hasattr(self, client):
                getattr(self, client).close()
        for look in (self._look, self._daytona):
            if look is not None:
                look.close()
        for log in self._logs:
            log.close()
        shutil.rmtree(self.home, ignore_errors=True)

    # ------------------------------------------------------------ the world's things

    def repository(
        self, files: Mapping[str, str] | None = None, *, empty: bool = False, **options: Any
    ) -> Repository:
        """A repository in an organization and an installation of its own; `options` are `Control.create_repo`'s."""
        made = self.new_repository(files, empty=empty, **options)
        for label in LABELS:  # Else the App makes them, a second apart each.
            self.github.create_label(made.name, "alice", label)
        made.install()
        made.rest()
        return made

    def new_repository(
        self, files: Mapping[str, str] | None = None, *, empty: bool = False, **options: Any
    ) -> Repository:
        """As `repository`, with the App not installed yet."""
        self._count += 1
        org = f"team-{self._count}"
        self.github.create_org(org, ["alice"])
        content = None if empty else dict(files or {"README.md": "# Kit\n\nA kit.\n"})
        made = self.github.create_repo(org, "kit", content, private=False, by="alice", **options)
        return self._of(made)

    def add_repository(self, owner: str, name: str) -> Repository:
        """One more repository of an organization."""
        return self._of(
            self.github.create_repo(owner, name, {"README.md": "# Kit\n"}, private=False, by="alice")
        )

    def _of(self, made: Mapping[str, Any]) -> Repository:
        name = str(made["full_name"])
        for login, role in (("carol", "write"), ("dave", "write"), ("bob", "read")):
            self.github.set_collaborator(name, login, role)
        repository = Repository(self, name, int(made["id"]), Path(made["path"]))
        self.repositories.append(repository)
        return repository

    def script(self, name: str, *turns: list[dict[str, Any]], **more: Any) -> None:
        """A scenario of the model; see `simulators.model.script`."""
        answer = self.model.post(f"/_sim/scripts/{name}", json={"turns": list(turns), **more})
        assert answer.is_success, answer.text

    def open_gate(self, name: str) -> None:
        self.model.post(f"/_sim/gates/{name}/open").raise_for_status()

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Read-only look into the database: to wait for quiet and to report failures, never to assert on."""
        if self._look is not None:
            return self._look.rows(query, values)
        path = self.home / "state" / "issuewright.db"
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
        try:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query, values)]
        finally:
            connection.close()

    @property
    def sql_now(self) -> str:
        """The time in the database's own words, to compare a stored one with."""
        return "now()" if self._look is not None else "strftime('%Y-%m-%dT%H:%M:%f', 'now')"

    def wait(self, look: Callable[[], Found | None], what: str, within_s: float = PATIENCE_S) -> Found:
        """Until `look` finds something true. Fails at the deadline."""
        deadline = time.monotonic() + within_s
        while True:
            found = look()
            if found:
                return found
            assert time.monotonic() < deadline, f"{what} did not happen within {within_s:.0f} s"
            time.sleep(0.1)

    def log_tail(self, name: str, lines: int = 40) -> str:
        path = self.home / "logs" / f"{name}.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:]) if path.exists() else ""
