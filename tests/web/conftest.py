"""The web app over a database of the test, with bells and clocks of the tests' own."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import socket
import sqlite3
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from app.db.engine import Database
from app.db.models import Repository, Sandbox, Spec, Task
from app.domain.states import Flow, SandboxState, SpecState, TaskState
from app.main import create_app
from app.queue.jobs import JobName
from app.settings import Settings
from app.web.parts import Parts
from app.web.ports import Limits
from tests.servers import execute

SECRET = b"hook-secret"
OPERATOR = {"Authorization": "Bearer operator-token"}
START_SHA = "a" * 40
T0 = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class RecordedDoorbell:
    def __init__(self) -> None:
        self.rings: list[tuple[JobName, str, int]] = []

    async def ring(self, job: JobName, key: str, version: int = 0) -> bool:
        self.rings.append((job, key, version))
        return True


class LocalBell:
    """Wakes waiters of this process. `away`: like a bell without Redis, it gives up at once and tells nobody."""

    def __init__(self) -> None:
        self.away = False
        self._woken: dict[str, asyncio.Event] = {}

    def mark(self) -> int:
        return 0

    async def ring(self, sandbox_id: str) -> None:
        if not self.away:
            self._woken.setdefault(sandbox_id, asyncio.Event()).set()

    async def wait(self, sandbox_id: str, timeout_s: float, since: int | None = None) -> bool:
        if self.away:
            return False
        woken = self._woken.setdefault(sandbox_id, asyncio.Event())
        try:
            async with asyncio.timeout(timeout_s):
                await woken.wait()
        except TimeoutError:
            return False
        woken.clear()
        return True


class Clock:
    def __init__(self) -> None:
        self.now = T0

    def __call__(self) -> datetime:
        return self.now


@dataclass
class World:
    """One app and everything around it."""

    settings: Settings
    parts: Parts
    doorbell: RecordedDoorbell
    bell: LocalBell
    clock: Clock
    redis_up: bool = True
    app: Any = field(default=None)

    @property
    def database(self) -> Database:
        return self.parts.database

    def http(self, **headers: str) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://app", headers=headers)

    async def settled(self) -> None:
        """Everything that requests left to do in the background is done."""
        await self.parts.drain(5)


def _plain_client(limits: Limits) -> httpx.AsyncClient:
    """The upstream's client without TLS, whose certificates take longer to read than most tests."""
    timeout = httpx.Timeout(limits.upstream_read_s, connect=limits.upstream_connect_s)
    return httpx.AsyncClient(timeout=timeout, trust_env=False, verify=False)


MakeWorld = Callable[..., World]


def make_settings(home: Path, database_url: str, **values: Any) -> Settings:
    given = {
        "github_webhook_secret": SECRET.decode(),
        "api_token": "operator-token",
        "anthropic_api_key": "real-model-key",
    }
    return Settings(_env_file=None, issuewright_home=home, database_url=database_url, **given | values)


@pytest.fixture
async def make_world(tmp_path: Path, database_url: str) -> AsyncIterator[MakeWorld]:
    """Worlds without tables yet, which is also how a database that is away looks."""
    take_tables_away(database_url)
    made: list[World] = []

    def make(limits: Limits | None = None, upstream: httpx.AsyncClient | None = None, **values: Any) -> World:
        settings = make_settings(tmp_path / "home", database_url, **values)
        doorbell, bell, clock = RecordedDoorbell(), LocalBell(), Clock()

        async def ping() -> bool:
            return world.redis_up

        parts = Parts(
            settings=settings,
            database=Database(settings.database),
            doorbell=doorbell,
            bell=bell,
            redis_ping=ping,
            clock=clock,
            limits=limits or Limits(),
            upstream=upstream or _plain_client(limits or Limits()),
        )
        world = World(settings, parts, doorbell, bell, clock)
        world.app = create_app(settings, parts)
        made.append(world)
        return world

    yield make
    for world in made:
        await world.parts.aclose()
        await world.database.aclose()
    bring_tables_back(database_url)


def take_tables_away(database_url: str) -> None:
    """Out of sight, in one step: making them anew takes longer than most tests."""
    if database_url.startswith("postgresql"):
        execute(database_url, "alter schema public rename to away", "create schema public")
    else:
        path = _file(database_url)
        path.rename(path.with_suffix(".away"))


def bring_tables_back(database_url: str) -> None:
    """Nothing when they are there."""
    if database_url.startswith("postgresql"):
        execute(database_url, _BRING_BACK)
    elif (away := _file(database_url).with_suffix(".away")).exists():
        # The app may have the new, empty file open, so that one stays.
        with (
            closing(sqlite3.connect(away)) as source,
            closing(sqlite3.connect(_file(database_url))) as target,
        ):
            source.backup(target)
        away.unlink()


def _file(database_url: str) -> Path:
    return Path(database_url.partition(":///")[2])


_BRING_BACK = """
do $$ begin
    if exists (select from information_schema.schemata where schema_name = 'away') then
        drop schema public;
        alter schema away rename to public;
    end if;
end $$
"""


async def create_tables(world: World) -> None:
    bring_tables_back(world.settings.database)


@pytest.fixture
async def world(make_world: MakeWorld) -> World:
    world = make_world()
    await create_tables(world)
    return world


# ------------------------------------------------------------ rows


def _spec(number: int, **values: Any) -> Spec:
    fields: dict[str, Any] = {
        "id": f"spec_{number:020d}",
        "installation_id": 1,
        "repo_id": 7,
        "issue_number": number,
        "trigger_key": f"label-{number}",
        "flow": Flow.QUICK,
        "state": SpecState.IMPLEMENTING,
        "title": "Count the ways",
        "body": "",
        "issue_labels": ["agent:quick"],
        "trigger_label": "agent:quick",
        "labeler_id": 11,
        "labeler_login": "alice",
        "notes": [],
        "lease_until_at": T0,
        "due_at": T0,
        "created_at": T0 + timedelta(seconds=number),
        "updated_at": T0 + timedelta(seconds=number),
    }
    return Spec(**{**fields, **values})


async def add_spec(world: World, number: int = 1, **values: Any) -> str:
    async with world.database.write() as session:
        if await session.get(Repository, 7) is None:
            session.add(
                Repository(
                    id=7, installation_id=1, owner="alice", name="widgets", state="active", updated_at=T0
                )
            )
        spec = _spec(number, **values)
        session.add(spec)
        await session.flush()
        session.add(
            Task(
                id=f"task_{number:020d}",
                spec_id=spec.id,
                key="t1",
                position=0,
                title="Do it",
                description="",
                state=TaskState.RUNNING,
                detail={},
                created_at=spec.created_at,
                updated_at=spec.created_at,
            )
        )
        return spec.id


async def add_sandbox(world: World, number: int = 1, **values: Any) -> tuple[str, str]:
    """A running sandbox of spec `number` (made when missing); its id and token."""
    async with world.database.read() as session:
        known = await session.get(Spec, f"spec_{number:020d}")
    if known is None:
        await add_spec(world, number)
    sandbox_id, token = f"sbx_{number:020d}", f"token-of-{number}"
    fields: dict[str, Any] = {
        "id": sandbox_id,
        "spec_id": f"spec_{number:020d}",
        "task_id": f"task_{number:020d}",
        "attempt": 1,
        "state": SandboxState.RUNNING,
        "provider": "process",
        "provider_name": sandbox_id,
        "token_hash": hashlib.sha256(token.encode()).hexdigest(),
        "start_sha": START_SHA,
        "budget_usd": 10.0,
        "deadline_at": T0 + timedelta(hours=1),
        "created_at": T0 + timedelta(seconds=number),
        "updated_at": T0 + timedelta(seconds=number),
    }
    async with world.database.write() as session:
        session.add(Sandbox(**{**fields, **values}))
    return sandbox_id, token


async def get_row(world: World, table: type[Any], key: Any) -> Any:
    async with world.database.read() as session:
        return await session.get(table, key)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def signed(body: bytes, secret: bytes = SECRET, **changes: str | None) -> dict[str, str]:
    """The headers of a delivery; a change to None leaves one out."""
    headers: dict[str, str | None] = {
        "X-GitHub-Event": "issues",
        "X-GitHub-Delivery": str(uuid.uuid4()),
        "X-Hub-Signature-256": "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest(),
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/1",
        **{name.replace("_", "-"): value for name, value in changes.items()},
    }
    return {name: value for name, value in headers.items() if value is not None}


def event(seq: int, event_type: str = "agent.tool_use", **data: Any) -> dict[str, Any]:
    return {
        "seq": seq,
        "event_type": event_type,
        "event_data": data,
        "source": "agent",
        "timestamp": "2026-03-01T12:00:00.000Z",
    }


async def until(check: Callable[[], Any], limit_s: float = 5.0) -> Any:
    """Waits for a condition, with a deadline."""
    loop = asyncio.get_running_loop()
    end = loop.time() + limit_s
    while True:
        value = check()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        assert loop.time() < end, "condition not met in time"
        await asyncio.sleep(0.01)


# ------------------------------------------------------------ real HTTP


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """The app on a loopback port, in this loop; its base URL."""

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = Server(
            uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=1, ws="none")
        )
        task = asyncio.create_task(server.serve(sockets=[listener]))
        await until(lambda: server.started)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task
