"""What a sandbox with 100,000 events costs whoever looks at it: the first page of its trajectory, by the operator API."""

from __future__ import annotations

import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr
from sqlalchemy import create_engine, insert

from app.db.models import Base, Event, Sandbox, Spec
from app.domain.states import Flow, SandboxState, SpecState
from app.main import build_parts, close, create_app
from app.settings import Settings
from bench.figures import Figure, middle

EVENTS = 100_000
ROUNDS = 15
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
SPEC_ID, SANDBOX_ID = "spec_of_the_bench", "sbx_of_the_bench"
TOKEN = "operator"


async def measure(events: int = EVENTS, rounds: int = ROUNDS) -> list[Figure]:
    """On SQLite; the first request warms up."""
    with tempfile.TemporaryDirectory(prefix="iw-") as name:
        path = Path(name) / "events.db"
        _fill(path, events)
        settings = Settings(
            _env_file=None, issuewright_home=Path(name), database_url=f"sqlite+aiosqlite:///{path}",
            api_token=SecretStr(TOKEN),
        )  # type: ignore[call-arg]  # fmt: skip
        parts = build_parts(settings, None)
        try:
            seconds = await _ask(create_app(settings, parts), rounds)
        finally:
            await close(parts)
    first_page_ms = round(middle(seconds) * 1000, 1)
    return [
        Figure(
            f"trajectory of a sandbox with {events:,} events: first page", first_page_ms, "ms", "at most", 50
        )
    ]


async def _ask(app: Any, rounds: int) -> list[float]:
    transport = httpx.ASGITransport(app)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    seconds = []
    async with httpx.AsyncClient(transport=transport, base_url="http://app", headers=headers) as http:
        for _ in range(rounds + 1):
            began = time.perf_counter()
            answer = await http.get(f"/api/v1/sandboxes/{SANDBOX_ID}/trajectory")
            seconds.append(time.perf_counter() - began)
            answer.raise_for_status()
    return seconds[1:]


def _fill(path: Path, events: int) -> None:
    engine = create_engine(f"sqlite:///{path}")
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(Spec), [_spec()])
        connection.execute(insert(Sandbox), [_sandbox()])
        connection.execute(insert(Event), [_event(number) for number in range(1, events + 1)])
    engine.dispose()


def _spec() -> dict[str, Any]:
    return {
        "id": SPEC_ID, "installation_id": 1, "repo_id": 7, "issue_number": 1, "trigger_key": "1", "flow": Flow.QUICK,
        "state": SpecState.IMPLEMENTING, "title": "", "body": "", "issue_labels": [], "trigger_label": "agent:quick",
        "labeler_id": 11, "labeler_login": "alice", "notes": [], "lease_until_at": BEGAN, "due_at": BEGAN,
        "created_at": BEGAN, "updated_at": BEGAN,
    }  # fmt: skip


def _sandbox() -> dict[str, Any]:
    return {
        "id": SANDBOX_ID, "spec_id": SPEC_ID, "attempt": 1, "state": SandboxState.RUNNING, "provider": "process",
        "provider_name": SANDBOX_ID, "token_hash": "", "start_sha": "", "budget_usd": 1.0, "deadline_at": BEGAN,
        "created_at": BEGAN, "updated_at": BEGAN,
    }  # fmt: skip


def _event(number: int) -> dict[str, Any]:
    """A heartbeat now and then, tools and their results in between."""
    beat = number % 8 == 0
    data = {} if beat else {"tool": "Bash", "input": {"command": f"echo {number} " + "x" * 300}}
    at = BEGAN + timedelta(seconds=number)
    return {
        "sandbox_id": SANDBOX_ID, "seq": number, "event_type": "agent.heartbeat" if beat else "agent.tool_use",
        "event_data": data, "source": "agent", "timestamp": at, "received_at": at,
    }  # fmt: skip
