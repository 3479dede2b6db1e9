"""What one round of supervision costs while a thousand sandboxes live, a hundred of them in trouble."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from sqlalchemy import event, insert, update
from structlog.testing import capture_logs

from app.db.engine import Database
from app.db.models import Lock, Phase, Sandbox, Spec
from app.domain.labels import LabelNames
from app.domain.ports import GitHub, Sandboxes, SandboxSight, SandboxStatus
from app.domain.states import Flow, PhaseState, SandboxState, SpecState
from bench.figures import Figure, middle
from bench.servers import app_environment
from worker.parts import Limits, Parts
from worker.supervise.sandboxes import SandboxRounds

LIVE = 1_000
TROUBLED = 100
ROUNDS = 5


@dataclass
class Listing:
    """A provider that only lists what it has, at once."""

    names: Sequence[str]
    kind: str = "process"

    async def list_owned(self) -> Sequence[SandboxSight]:
        return [SandboxSight(name, SandboxStatus.RUNNING) for name in self.names]


async def measure(rounds: int = ROUNDS, url: str | None = None) -> list[Figure]:
    """On an SQLite file; with `url`, on an empty database there that has all tables."""
    with tempfile.TemporaryDirectory(prefix="iw-bench-") as home:
        database = Database(url or await asyncio.to_thread(_new_database, Path(home)))
        try:
            now = datetime.now(UTC)
            names = await _fill(database, now)
            parts = _parts(database, Path(home), names)
            taken = [await _once(database, parts, now) for _ in range(rounds)]
        finally:
            await database.aclose()
    return [
        Figure(f"a round over {LIVE} live sandboxes", middle([one[0] for one in taken]), "s", "at most", 1),
        Figure("statements in that round", max(one[1] for one in taken), "", "at most", 19),
    ]


def _new_database(home: Path) -> str:
    argv = [sys.executable, "-m", "app", "migrate"]
    subprocess.run(argv, env=app_environment(home), check=True, capture_output=True)
    return f"sqlite+aiosqlite:///{home}/state/issuewright.db"


def _parts(database: Database, home: Path, names: Sequence[str]) -> Parts:
    return Parts(
        db=database, github=cast("GitHub", None), sandboxes=cast("Sandboxes", Listing(names)),
        clock=lambda: datetime.now(UTC), labels=LabelNames(),
        limits=Limits(4, 2, 8, None, (), 10.0, 150, 3600, 600, ()), home=home, host_id="bench", worker_id="w1",
        instance="bench", web_url="", token_key=b"key", model_ready=True, secrets=(),
    )  # fmt: skip


async def _fill(database: Database, now: datetime) -> list[str]:
    """Specs that plan, a sandbox each; the first ones are past their time."""
    specs, boxes, phases = [], [], []
    for number in range(LIVE):
        spec_id = f"spec_{number:05}"
        specs.append(_spec_row(spec_id, number, now))
        boxes.append(_sandbox_row(number, spec_id, now))
        phases.append(
            {
                "spec_id": spec_id,
                "name": "explore",
                "state": PhaseState.RUNNING,
                "version": 1,
                "revision": 0,
                "attempts": 1,
                "checks": {},
                "findings": [],
                "updated_at": now,
            }
        )
    async with database.write() as session:
        await session.execute(insert(Spec), specs)
        await session.execute(insert(Phase), phases)
        await session.execute(insert(Sandbox), boxes)
    return [str(box["provider_name"]) for box in boxes]


def _spec_row(spec_id: str, number: int, now: datetime) -> dict[str, Any]:
    return {
        "id": spec_id, "installation_id": 1, "repo_id": number % 50, "issue_number": number, "trigger_key": spec_id,
        "flow": Flow.FULL, "state": SpecState.PLANNING, "title": "t", "body": "b", "issue_labels": [],
        "trigger_label": "agent", "labeler_id": 1, "labeler_login": "alice", "notes": [], "lease_until_at": now,
        "due_at": now, "created_at": now, "updated_at": now,
    }  # fmt: skip


def _sandbox_row(number: int, spec_id: str, now: datetime) -> dict[str, Any]:
    hours = -1 if number < TROUBLED else 1
    return {
        "id": f"sbx_{number:05}", "spec_id": spec_id, "attempt": 1, "state": SandboxState.RUNNING,
        "provider": "process", "provider_name": f"iw-bench-{number:05}", "host_id": "bench", "token_hash": spec_id,
        "start_sha": "a" * 40, "budget_usd": 10.0, "created_at": now, "started_at": now, "updated_at": now,
        "last_heartbeat_at": now, "last_work_at": now, "deadline_at": now + timedelta(hours=hours),
    }  # fmt: skip


async def _once(database: Database, parts: Parts, now: datetime) -> tuple[float, float]:
    """Seconds and statements of a round that finds everything anew."""
    async with database.write() as session:
        await session.execute(update(Sandbox).values(trouble=None, last_heartbeat_at=datetime.now(UTC)))
        await session.execute(update(Lock).values(until_at=now - timedelta(seconds=1)))
    statements: list[str] = []

    def note(*arguments: Any) -> None:
        statements.append(str(arguments[2]))

    event.listen(database.engine.sync_engine, "before_cursor_execute", note)
    with capture_logs():
        began = time.perf_counter()
        seen = await SandboxRounds(parts).look()
        took_s = time.perf_counter() - began
    event.remove(database.engine.sync_engine, "before_cursor_execute", note)
    if seen is None or seen.watched != LIVE or seen.troubles != TROUBLED:
        raise RuntimeError(f"the round saw {seen}")
    return took_s, float(len(statements))
