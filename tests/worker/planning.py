"""The bench for planning: what a planning sandbox reports, and outputs that pass for the bench's repository."""

from __future__ import annotations

import copy
from typing import Any

from sqlalchemy import select

from app.db.events import NewEvent, record_events
from app.db.models import Phase, Sandbox, Task
from app.db.sandboxes import set_sandbox
from app.db.specs import record_fact
from sandbox_payload.wire import BRIEF_FILE, Brief, Manifest
from tests.worker.bench import Bench

PHASES = ("explore", "requirements", "design", "tasks")

OUTPUTS: dict[str, dict[str, Any]] = {
    "explore": {
        "project_kind": "a library",
        "languages": [{"name": "Python", "version": None}],
        "frameworks": [],
        "structure": "One file.",
        "key_files": [{"path": "README.md", "purpose": "says what it is"}],
        "conventions": {"naming": "snake_case", "tests": "none yet", "style": "PEP 8"},
        "setup": {"command": None, "worked": None, "notes": ""},
        "test": {"command": "python3 -m unittest", "worked": True, "notes": ""},
        "related_code": [],
        "open_questions": [],
        "scope_in": ["the function"],
        "scope_out": [],
    },
    "requirements": {
        "requirements": [
            {
                "id": "R1",
                "statement": "WHEN binomial(n, k) is called the library SHALL return the exact number.",
                "criteria": [{"id": "R1.1", "text": "binomial(5, 2) is 10."}],
            },
            {
                "id": "R2",
                "statement": "IF n is negative THEN the library SHALL raise ValueError.",
                "criteria": [{"id": "R2.1", "text": "binomial(-1, 0) raises ValueError."}],
            },
        ],
        "assumptions": ["Python 3.11"],
        "out_of_scope": [],
    },
    "design": {
        "approach": "Multiply and divide exactly.",
        "components": [
            {
                "name": "binomial",
                "purpose": "computes",
                "files": [{"path": "binomial.py", "change": "create"}],
                "requirements": ["R1", "R2"],
            }
        ],
        "data_changes": [],
        "interface_changes": ["binomial(n, k)"],
        "error_handling": "ValueError",
        "security": "None.",
        "test_strategy": "unittest",
        "alternatives": [{"option": "math.comb", "refused_because": "too easy"}],
    },
    "tasks": {
        "tasks": [
            {
                "id": "T1",
                "title": "Write binomial",
                "description": "The function.",
                "kind": "implementation",
                "files": [{"path": "binomial.py", "change": "create"}],
                "criteria": ["R1.1", "R2.1"],
                "requirements": ["R1", "R2"],
                "depends_on": [],
                "estimate_hours": 1.0,
            },
            {
                "id": "T2",
                "title": "Test binomial",
                "description": "Its tests.",
                "kind": "test",
                "files": [{"path": "test_binomial.py", "change": "create"}],
                "criteria": ["R1.1"],
                "requirements": ["R1"],
                "depends_on": ["T1"],
                "estimate_hours": 1.0,
            },
        ]
    },
}


def outputs() -> dict[str, dict[str, Any]]:
    """A copy to change."""
    return copy.deepcopy(OUTPUTS)


def brief(bench: Bench) -> Brief:
    """Of the newest sandbox."""
    return Brief.model_validate_json(bench.sandboxes.newest.inputs[BRIEF_FILE])


def start(bench: Bench, label: str = "agent") -> int:
    """An issue labeled so that a plan is made first."""
    for name in (label, "agent:approved"):
        bench.github.create_label(bench.name, "alice", name)
    number = bench.open_issue("Add binomial coefficients")
    bench.github.add_labels(bench.name, number, "alice", label)
    return number


async def report(bench: Bench, event_type: str, **data: Any) -> None:
    """One event of the newest sandbox, as the web process stores it, with the wake-up."""
    order = bench.sandboxes.newest
    async with bench.db.write() as session:
        sandbox = (await session.execute(select(Sandbox).where(Sandbox.id == order.sandbox_id))).scalar_one()
        event = NewEvent(sandbox.last_seq + 1, event_type, data, "agent", bench.clock())
        await record_events(session, sandbox, [event], bench.clock())
        sandbox.last_heartbeat_at = sandbox.last_work_at = bench.clock()
        await record_fact(session, str(order.labels["spec"]), bench.clock())


async def hand_in_phase(bench: Bench, phase: str, output: dict[str, Any] | None = None, **data: Any) -> None:
    """Started and completed."""
    await report(bench, "spec.phase_started", phase=phase, attempt=1)
    told = {"phase": phase, "version": 1, "attempts": 1, "revision": 1, "seconds": 1.0}
    await report(bench, "spec.phase_completed", **{**told, "output": output or OUTPUTS[phase], **data})


async def end_round(bench: Bench, round_: int = 1, **manifest: Any) -> None:
    """The planning sandbox's manifest, without a bundle."""
    order = bench.sandboxes.newest
    fields: dict[str, Any] = {
        "sandbox_id": order.sandbox_id, "round": round_, "start_sha": order.start_sha, "head_sha": order.start_sha,
        "status": "completed", "summary": "Planned.", "session_id": "s-1", "finished_at": bench.clock(),
    }  # fmt: skip
    await bench.upload("transcript.tar.gz", b"session")
    await bench.upload("manifest.json", Manifest(**{**fields, **manifest}).model_dump_json().encode())
    async with bench.db.write() as session:
        await set_sandbox(
            session, order.sandbox_id, bench.clock(), manifest_round=round_, session_id=fields["session_id"]
        )
        await record_fact(session, str(order.labels["spec"]), bench.clock())


async def plan(bench: Bench, plan_outputs: dict[str, dict[str, Any]] | None = None) -> None:
    """Every phase of the newest sandbox, and its end."""
    for phase in PHASES:
        await hand_in_phase(bench, phase, (plan_outputs or OUTPUTS)[phase])
    await end_round(bench)
    await bench.rest()


async def phases(bench: Bench) -> dict[str, Phase]:
    async with bench.db.read() as session:
        return {row.name: row for row in (await session.execute(select(Phase))).scalars()}


async def tasks(bench: Bench) -> dict[str, Task]:
    async with bench.db.read() as session:
        rows = (await session.execute(select(Task).order_by(Task.position))).scalars()
        return {row.key: row for row in rows}


def plan_comment(bench: Bench, number: int) -> str:
    found = [text for text in bench.comments(number) if "part=plan" in text]
    assert len(found) == 1, found
    return found[0]
