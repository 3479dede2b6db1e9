"""Two hundred sandboxes that report to one web process: how long until an event is acknowledged, and that none is lost."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvloop
from sqlalchemy import func, insert, select

from app.db.engine import Database
from app.db.models import Event, Sandbox, Spec
from app.domain.states import Flow, SandboxState, SpecState
from bench.figures import Figure
from bench.servers import app_environment, running
from tests.servers import find_postgres, new_database

SANDBOXES = 200
SECONDS = 30
WARM_S = 3
"""What is reported before is not counted: connections are made, and code and statements are loaded."""
BEAT_EVERY = 30
"""A heartbeat of its own beside each so many events: one event a second, one heartbeat in 30 s."""
PATIENCE_S = 60.0
_TOKEN = "iws_bench_{}"


def measure(sandboxes: int = SANDBOXES, seconds: int = SECONDS) -> list[Figure]:
    """On SQLite; and on PostgreSQL, where tests are told of a server."""
    figures = _measure("SQLite", None, sandboxes, seconds)
    if find_postgres():
        with new_database(durable=True) as url:
            figures += _measure("PostgreSQL", url, sandboxes, seconds)
    return figures


def _measure(kind: str, url: str | None, sandboxes: int, seconds: int) -> list[Figure]:
    with _web(url) as (port, database_url):
        asyncio.run(_fill(database_url, sandboxes))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            clients = runner.run(_report(port, sandboxes, seconds))
        sent = sum(one.sent for one in clients)
        stored = asyncio.run(_count(database_url))
    taken = sorted(took for one in clients for took in one.took_s)
    name = f"{sandboxes} sandboxes, an event a second each, {kind}"
    return [
        Figure(f"{name}: acknowledged, p99", _share(taken, 0.99), "ms", "at most", 250),
        Figure(f"{name}: acknowledged, p50", _share(taken, 0.5), "ms"),
        Figure(f"{name}: events lost", float(sent - stored), "", "at most", 0),
        Figure(f"{name}: events stored", float(stored), ""),
    ]


def _share(ordered: Sequence[float], share: float) -> float:
    return round(ordered[int(len(ordered) * share)] * 1000, 1)


@contextmanager
def _web(url: str | None) -> Iterator[tuple[int, str]]:
    """A web process on an empty database with all tables: its port, the database's address."""
    with tempfile.TemporaryDirectory(prefix="iw-bench-") as name:
        home = Path(name)
        environment = app_environment(home) | ({"DATABASE_URL": url} if url else {})
        argv = [sys.executable, "-m", "app", "migrate"]
        subprocess.run(argv, env=environment, check=True, capture_output=True)
        with (home / "log").open("wb") as log, running(("app", "web"), environment, log) as port:
            yield port, url or f"sqlite+aiosqlite:///{home}/state/issuewright.db"


# ---------------------------------------------------------------- what the sandboxes do


@dataclass
class _Client:
    """One sandbox: what happens in it goes by the clock, whether the app answers or not; what waits goes together."""

    number: int
    port: int
    sent: int = 0
    took_s: list[float] = field(default_factory=list)

    async def run(self, begin: float, seconds: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        due = [begin + self.number / SANDBOXES + second for second in range(seconds + WARM_S)]
        waiting: list[float] = []
        while due or waiting:
            if not waiting:
                await asyncio.sleep(max(0.0, due[0] - time.monotonic()))
            while due and due[0] <= time.monotonic():
                waiting.append(due.pop(0))
            writer.write(self._request(len(waiting)))
            await _answered(reader, self.sent)
            now = time.monotonic()
            self.took_s += [now - at for at in waiting if at >= begin + WARM_S]
            waiting.clear()
        writer.close()

    def _request(self, count: int) -> bytes:
        events = []
        for _ in range(count):
            self.sent += 1
            events.append(
                _event(self.sent, "agent.tool_use", {"tool": "Bash", "input": {"command": "x" * 300}})
            )
            if (self.sent + self.number) % BEAT_EVERY == 0:
                self.sent += 1
                events.append(_event(self.sent, "agent.heartbeat", {"uptime_s": self.sent, "tool": "Bash"}))
        body = json.dumps({"events": events}).encode()
        head = (
            f"POST /api/v1/sandboxes/{_sandbox_id(self.number)}/events HTTP/1.1\r\nHost: bench\r\n"
            f"Authorization: Bearer {_TOKEN.format(self.number)}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


def _event(seq: int, event_type: str, data: dict[str, Any]) -> dict[str, Any]:
    at = datetime.now(UTC).isoformat()
    return {"seq": seq, "event_type": event_type, "source": "agent", "timestamp": at, "event_data": data}


async def _answered(reader: asyncio.StreamReader, seq: int) -> None:
    """Raises RuntimeError unless everything up to `seq` is acknowledged."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))
    body = await reader.readexactly(length)
    if " 200 " not in lines[0] or json.loads(body)["last_seq"] != seq:
        raise RuntimeError(f"{lines[0]} {body[:200]!r}")


async def _report(port: int, sandboxes: int, seconds: int) -> list[_Client]:
    clients = [_Client(number, port) for number in range(sandboxes)]
    random.Random(7).shuffle(clients)
    begin = time.monotonic() + 1
    async with asyncio.timeout(seconds + WARM_S + PATIENCE_S):
        await asyncio.gather(*(one.run(begin, seconds) for one in clients))
    return clients


# ---------------------------------------------------------------- rows


def _sandbox_id(number: int) -> str:
    return f"sbx_{number:05}"


async def _fill(url: str, sandboxes: int) -> None:
    now = datetime.now(UTC)
    database = Database(url)
    async with database.write() as session:
        await session.execute(insert(Spec), [_spec(number, now) for number in range(sandboxes)])
        await session.execute(insert(Sandbox), [_sandbox(number, now) for number in range(sandboxes)])
    await database.aclose()


def _spec(number: int, now: datetime) -> dict[str, Any]:
    return {
        "id": f"spec_{number:05}", "installation_id": 1, "repo_id": number, "issue_number": 1, "trigger_key": str(number),
        "flow": Flow.QUICK, "state": SpecState.IMPLEMENTING, "title": "", "body": "", "issue_labels": [],
        "trigger_label": "agent:quick", "labeler_id": 1, "labeler_login": "alice", "notes": [], "lease_until_at": now,
        "due_at": now, "created_at": now, "updated_at": now,
    }  # fmt: skip


def _sandbox(number: int, now: datetime) -> dict[str, Any]:
    return {
        "id": _sandbox_id(number), "spec_id": f"spec_{number:05}", "attempt": 1, "state": SandboxState.RUNNING,
        "provider": "process", "provider_name": f"iw-bench-{number:05}",
        "token_hash": hashlib.sha256(_TOKEN.format(number).encode()).hexdigest(), "start_sha": "a" * 40,
        "budget_usd": 10.0, "deadline_at": now + timedelta(hours=1), "created_at": now, "updated_at": now,
    }  # fmt: skip


async def _count(url: str) -> int:
    database = Database(url)
    async with database.read() as session:
        found = await session.scalar(select(func.count()).select_from(Event))
    await database.aclose()
    return int(found or 0)
