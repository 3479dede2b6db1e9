"""Specs in each of their states, made as rows with what they have on GitHub: nothing is run to get there."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sqlalchemy import select, update

from app.db.models import Phase, Sandbox, Spec, Task
from app.db.phases import record_phases
from app.db.specs import NewSpec, record_spec
from app.domain.ids import new_sandbox_id
from app.domain.ports import SandboxSight, SandboxStatus
from app.domain.states import Flow, PhaseState, SandboxState, SpecState, TaskState
from tests.worker.bench import LABEL, Bench

S = SpecState
BEFORE = (S.QUEUED, S.PLANNING, S.AWAITING_APPROVAL)
WORKING = (S.IMPLEMENTING, S.PAUSED)
ENDED = (S.COMPLETED, S.FAILED, S.CANCELLED)
_OUTCOMES = {S.IN_REVIEW: "done", S.COMPLETED: "done", S.FAILED: "failed", S.CANCELLED: "cancelled"}
_FLOWS = {S.PLANNING: Flow.FULL, S.AWAITING_APPROVAL: Flow.PLAN}
_TASKS = {S.IMPLEMENTING: TaskState.RUNNING, S.PAUSED: TaskState.PENDING}


@dataclass
class Case:
    """One spec and what people saw of it before the event."""

    state: SpecState
    spec_id: str
    number: int
    pull: int | None = None
    branch: str = ""
    head: str = ""
    sandbox: str | None = None
    boxes: int = 0
    """How many sandboxes it has."""
    like: SpecState | None = None
    """Whose rows hold for it, where that is not its own state."""
    said: list[str] = field(default_factory=list)
    checks: dict[str, str | None] = field(default_factory=dict)


async def make(bench: Bench, state: SpecState, *, pull: bool) -> Case:
    """An issue with its label, the spec, its sandbox where it would have one; with `pull` from the branch on."""
    number = bench.open_issue(f"Something {state.value}")
    bench.label(number)
    case = Case(state, "", number)
    values: dict[str, Any] = {"state": state, "outcome": _OUTCOMES.get(state)}
    if pull:
        values |= _on_github(bench, case)
    now = bench.clock()
    if state in ENDED:
        values |= {"ended_at": now, "concluded_at": now, "outcome_detail": "It ended."}
    if state in {S.IN_REVIEW, S.COMPLETED}:
        values |= {"pull_ready_at": now, "review_asked_at": now}
    if state is S.PAUSED:
        values |= {"pause_asked_at": now, "paused_from": S.IMPLEMENTING.value}
    if state is S.QUEUED:
        values |= {"due_at": bench.clock.far, "stepped_version": 1}
    async with bench.db.write() as session:
        new = NewSpec(
            bench.installation_id, bench.repo_id, number, f"{state}@{number}", _FLOWS.get(state, Flow.QUICK),
            "Do it", "Please.", (LABEL,), LABEL, 1, "alice",
        )  # fmt: skip
        case.spec_id = str(await record_spec(session, new, now))
        await session.execute(update(Spec).where(Spec.id == case.spec_id).values(**values))
        task: Task | None = await session.scalar(select(Task).where(Task.spec_id == case.spec_id))
        if task is not None and state is not S.QUEUED:
            task.state = _TASKS.get(state, TaskState.COMPLETED)
        if state is S.AWAITING_APPROVAL:
            await _plan(session, case.spec_id, now)
        if state in {S.PLANNING, S.IMPLEMENTING}:
            session.add(add_sandbox(bench, case, task))
    return case


async def _plan(session: Any, spec_id: str, now: Any) -> None:
    for row in await record_phases(session, spec_id, now):
        assert isinstance(row, Phase)
        row.state, row.output = PhaseState.COMPLETED, {}
    hashes = {"plan_hash": "a" * 64, "plan_shown_hash": "a" * 64, "plan_shown": {}, "plan_revision": 1}
    await session.execute(update(Spec).where(Spec.id == spec_id).values(**hashes))


def _on_github(bench: Bench, case: Case) -> dict[str, Any]:
    case.branch = f"feature/{case.number}-something"
    bench.github.push(bench.name, "alice", case.branch, {f"{case.number}.txt": "work\n"})
    draft = case.state in WORKING
    made = bench.github.open_pull(bench.name, "alice", "Do it", case.branch, "main", draft=draft)
    case.pull, case.head = int(made["number"]), str(made["head"]["sha"])
    return {
        "branch": case.branch, "start_sha": made["base"]["sha"], "head_sha": case.head, "push_sha": case.head,
        "base_branch": "main", "base_sha": made["base"]["sha"], "default_branch": "main", "settings": {},
        "pull_number": case.pull, "pull_node_id": made["node_id"], "pull_url": made["html_url"], "pull_state": "open",
    }  # fmt: skip


def add_sandbox(bench: Bench, case: Case, task: Task | None, activity: str | None = None) -> Sandbox:
    """One more, running at the provider; the caller adds its row."""
    now, name = bench.clock(), f"iw-test-{case.number}-{case.boxes}"
    case.boxes += 1
    bench.sandboxes.sights[name] = SandboxSight(name, SandboxStatus.RUNNING)
    return Sandbox(
        id=new_sandbox_id(), spec_id=case.spec_id, task_id=task.id if task else None, attempt=1,
        state=SandboxState.RUNNING, provider="process", provider_name=name, host_id="host", token_hash=name,
        start_sha=case.head, budget_usd=10.0, created_at=now, started_at=now, updated_at=now, last_heartbeat_at=now,
        deadline_at=now + timedelta(hours=2), activity=activity,
    )  # fmt: skip


# ---------------------------------------------------------------- what is to be seen


def comments(bench: Bench, case: Case) -> list[str]:
    """Of a deleted issue there are none to be seen: those from before."""
    try:
        said = bench.comments(case.number)
    except LookupError:
        return case.said
    return [text for text in said if "part=status" in text]


def checks(bench: Bench, case: Case) -> dict[str, str | None]:
    """Conclusions of the spec's check runs, by head; of a deleted repository those from before."""
    try:
        runs = bench.github.check_runs(bench.name)
    except LookupError:
        return case.checks
    return {run["head_sha"]: run["conclusion"] for run in runs if run["external_id"] == case.spec_id}


async def row_of(bench: Bench, case: Case) -> Spec:
    async with bench.db.read() as session:
        return (await session.execute(select(Spec).where(Spec.id == case.spec_id))).scalar_one()


async def live_boxes(bench: Bench, case: Case) -> int:
    async with bench.db.read() as session:
        rows = await session.scalars(
            select(Sandbox).where(Sandbox.spec_id == case.spec_id, Sandbox.removed_at.is_(None))
        )
        return len(list(rows))
