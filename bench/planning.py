"""What planning costs beyond the model: each phase of a run whose model answers at once, and a plan of sixty tasks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.cli.demo.stage import Place, Stage, Stagehand
from app.db.engine import Database
from app.db.models import Spec
from app.db.phases import NewTask, record_tasks
from app.domain.plan import SyncReport, plan_hash, sync_plan
from app.domain.render_plan import render_plan
from app.domain.states import Flow, SpecState, TaskState
from app.domain.steps import SpecFacts, StepName, TaskFacts, decide_step
from app.domain.view import PlanView
from bench.figures import Figure, middle
from bench.servers import app_environment

TASKS = 60
ROUNDS = 5
WAIT_S = 120.0
TOOL_LESS = ("requirements", "design", "tasks")
"""Phases in which the scripted agent only hands in: explore runs real commands first."""


async def measure(rounds: int = ROUNDS) -> list[Figure]:
    """One planned run on the real parts, then the plan of sixty tasks by itself, `rounds` times."""
    phase_s = await _phase_seconds()
    own_ms = await measure_sixty_tasks(rounds)
    return [
        Figure("planning: seconds per phase beyond the model's answers", phase_s, "s", "at most", 2),
        Figure("a plan of 60 tasks: checked, rendered, stored, walked", own_ms, "ms", "at most", 100),
    ]


async def _phase_seconds() -> float:
    stagehand = Stagehand(idle_s=1)
    try:
        stage = await stagehand.build(Place("bubblewrap"))
        issue = int((await stage.github.open_issue())["number"])
        await stage.github.label(issue, "agent")
        phases = await stage.wait_for(lambda: _phases(stage), "the plan", WAIT_S)
    finally:
        await stagehand.clear(remove=True)
    return middle([_seconds(phase) for phase in phases if phase["phase"] in TOOL_LESS], 2)


async def _phases(stage: Stage) -> list[dict[str, Any]] | None:
    for spec in (await stage.ask("/specs"))["items"]:
        phases: list[dict[str, Any]] = (await stage.ask(f"/specs/{spec['id']}"))["phases"]
        if phases and all(phase["state"] == "completed" for phase in phases):
            return phases
    return None


def _seconds(phase: dict[str, Any]) -> float:
    began, ended = (datetime.fromisoformat(phase[name]) for name in ("started_at", "ended_at"))
    return (ended - began).total_seconds()


async def measure_sixty_tasks(rounds: int) -> float:
    outputs = sixty_tasks()
    with tempfile.TemporaryDirectory(prefix="iw-bench-") as home:
        environment = app_environment(Path(home))
        argv = [sys.executable, "-m", "app", "migrate"]
        await asyncio.to_thread(subprocess.run, argv, env=environment, check=True, capture_output=True)
        database = Database(f"sqlite+aiosqlite:///{home}/state/issuewright.db")
        try:
            times = [await _once(database, outputs, f"spec_{number}") for number in range(rounds)]
        finally:
            await database.aclose()
    return middle(times[1:], 1)


async def _once(database: Database, outputs: dict[str, dict[str, Any]], spec_id: str) -> float:
    """Milliseconds of this process's own CPU time, the driver's thread included."""
    now = datetime.now(UTC)
    async with database.write() as session:
        session.add(_spec(spec_id, now))
    began = time.process_time()
    report = sync_plan(outputs, lambda _path: True)
    whole = plan_hash(outputs)
    view = PlanView.of(
        outputs, report.as_output(), spec_id=spec_id, issue_number=1, revision=1, full_hash=whole, changes=(),
        approval_awaited=False,
    )  # fmt: skip
    render_plan(view)
    items = {item["id"]: item for item in outputs["tasks"]["tasks"]}
    tasks = [
        NewTask(key, at, items[key]["title"], items[key]["description"], items[key])
        for at, key in enumerate(report.order)
    ]
    async with database.write() as session:
        await record_tasks(session, spec_id, tasks, now)
    _walk(report)
    return (time.process_time() - began) * 1000


def _walk(report: SyncReport) -> None:
    """Asks for the next step until every task is done."""
    done: set[str] = set()
    while len(done) < len(report.order):
        rows = tuple(
            TaskFacts(
                key,
                TaskState.COMPLETED if key in done else TaskState.PENDING,
                done.issuperset(report.depends_on[key]),
                None,
            )
            for key in report.order
        )
        facts = SpecFacts(
            SpecState.IMPLEMENTING, cancel_asked=False, concluded=False, has_branch=True, has_pull=True,
            pull_ready=False, tasks=rows, plan=None,
        )  # fmt: skip
        following = decide_step(facts)
        if following is None or following.step is not StepName.PROVISION or following.task is None:
            raise RuntimeError(f"the walk stopped at {following}")
        done.add(following.task)


def sixty_tasks() -> dict[str, dict[str, Any]]:
    """A plan as large as plans may be: each task has a file of its own and waits for the five before it."""
    requirements = [
        {
            "id": f"R{number}",
            "statement": f"WHEN it is asked for part {number} the library SHALL compute it.",
            "criteria": [{"id": f"R{number}.1", "text": f"Part {number} is computed."}],
        }
        for number in range(1, 21)
    ]
    tasks = [
        {
            "id": f"T{number}",
            "title": f"Build part {number}",
            "description": "Everything that has to be known stands in the design. " * 5,
            "kind": "implementation",
            "files": [{"path": f"parts/part_{number}.py", "change": "create"}],
            "criteria": [f"R{(number - 1) % 20 + 1}.1"],
            "requirements": [f"R{(number - 1) % 20 + 1}"],
            "depends_on": [f"T{before}" for before in range(max(1, number - 5), number)],
            "estimate_hours": 2.0,
        }
        for number in range(1, TASKS + 1)
    ]
    command = {"command": "make test", "worked": True, "notes": ""}
    return {
        "explore": {
            "project_kind": "a library", "languages": [], "frameworks": [], "structure": "parts/",
            "key_files": [{"path": "README.md", "purpose": "says what it is"}],
            "conventions": {"naming": "snake_case", "tests": "unittest", "style": "PEP 8"},
            "setup": command, "test": command, "related_code": [], "open_questions": [], "scope_in": [],
            "scope_out": [],
        },
        "requirements": {"requirements": requirements, "assumptions": [], "out_of_scope": []},
        "design": {
            "approach": "Part by part.", "components": [], "data_changes": [], "interface_changes": [],
            "error_handling": "ValueError", "security": "none", "test_strategy": "unittest",
            "alternatives": [],
        },
        "tasks": {"tasks": tasks},
    }  # fmt: skip


def _spec(spec_id: str, now: datetime) -> Spec:
    return Spec(
        id=spec_id, installation_id=1, repo_id=1, issue_number=int(spec_id.split("_")[1]), trigger_key=spec_id,
        flow=Flow.FULL, state=SpecState.PLANNING, title="t", body="b", issue_labels=[], trigger_label="agent",
        labeler_id=1, labeler_login="alice", lease_until_at=now, due_at=now, created_at=now, updated_at=now,
    )  # fmt: skip
