"""What the planning sandbox reported: judged again, stored, and once every phase is done turned into tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import Event, Phase, Sandbox
from app.db.phases import NewTask, list_phase_events, record_phases, record_tasks, restore_phases
from app.db.sandboxes import move_sandbox, set_sandbox
from app.domain.notices import PHASE_FAILED, PLAN_UNCHANGED, PLANNING_FAILED, REVISION_FAILED, SYNC_FAILED
from app.domain.plan import SyncReport, closing_item, plan_hash, sync_plan
from app.domain.quality import score_output
from app.domain.sanitize import sanitize_line
from app.domain.secrets_scan import redact
from app.domain.spec import BadOutput, parse_output
from app.domain.states import SANDBOX_LIVE, PhaseState, SandboxState, SpecState
from app.domain.view import Outcome
from app.git.objects import list_tree
from sandbox_payload.wire import EventType, Manifest
from sandbox_payload.wire.gates import find_faults
from sandbox_payload.wire.plan import AGENT_PHASES, PhaseName
from worker.flow.collect import failure_text
from worker.flow.lost import interruption, pause_s, plan_interrupted
from worker.flow.mirror import mirror_ready
from worker.flow.model_key import key_trouble
from worker.flow.take_result import find_manifest
from worker.mirrors import mirror_path
from worker.step import Step

PATIENCE_S = 15.0
LOOK_S = 3.0
MAX_PHASE_S = 86_400.0
Exists = Callable[[str], bool]


@dataclass(frozen=True)
class Judged:
    """What reports are judged by, and what must not stand in what people are told of them."""

    exists: Exists
    secrets: Sequence[str]


async def run(step: Step) -> datetime:
    sandbox = step.planning_sandbox
    sha = step.spec.base_sha or ""
    if sandbox is None or not await mirror_ready(step, sha, PATIENCE_S):
        return step.later(1)
    exists = await _paths(step, sha)
    async with step.parts.db.read() as session:
        events = await list_phase_events(session, sandbox)
    manifest = (
        await find_manifest(step, sandbox) if sandbox.manifest_round > sandbox.collected_round else None
    )
    values: dict[str, Any] = {}
    async with step.saving(**values) as session:
        phases = {PhaseName(row.name): row for row in await record_phases(session, step.spec.id, step.now())}
        for event in events:
            _take(phases, event, sandbox, Judged(exists, step.parts.secrets))
        await _note_sandbox(session, step, sandbox, events, manifest)
    step.phases = list(phases.values())
    return await _go_on(step, phases, manifest, exists)


def _take(phases: Mapping[PhaseName, Phase], event: Event, sandbox: Sandbox, by: Judged) -> None:
    """One report. What it says is a stranger's word: an output counts only when it passes here, too."""
    data, now = event.event_data, event.received_at
    try:
        name = PhaseName(str(data.get("phase")))
    except ValueError:
        return
    row = phases.get(name)
    if row is None or name not in AGENT_PHASES:
        return
    row.sandbox_id, row.updated_at = sandbox.id, now
    row.attempts = max(row.attempts, _count(data.get("attempts", data.get("attempt"))))
    if event.event_type == EventType.PHASE_STARTED:
        if row.state is not PhaseState.COMPLETED:
            row.state, row.started_at, row.ended_at = PhaseState.RUNNING, now, None
    elif event.event_type == EventType.PHASE_RETRY:
        row.findings = _told(data.get("findings"), by.secrets)
    elif event.event_type == EventType.PHASE_FAILED:
        row.state, row.findings = PhaseState.FAILED, _told(data.get("findings"), by.secrets)
        row.started_at, row.ended_at = row.started_at or now, now
    else:
        _judge(phases, row, data.get("output"), by, now)
        took_s = data.get("seconds")
        if isinstance(took_s, int | float) and 0 <= took_s < MAX_PHASE_S:
            # What it took to make this output: between two revisions there may be days.
            row.started_at = now - timedelta(seconds=took_s)


def _judge(phases: Mapping[PhaseName, Phase], row: Phase, output: object, by: Judged, now: datetime) -> None:
    name = PhaseName(row.name)
    earlier = _outputs(phases, before=name)
    try:
        model = parse_output(name, output)
        plain = model.model_dump(mode="json")
        findings = find_faults(name, plain, earlier, by.exists)
    except BadOutput as bad:
        findings, plain = bad.findings, {}
    row.started_at, row.ended_at = row.started_at or now, now
    if findings:
        row.state, row.findings = (
            PhaseState.FAILED,
            [sanitize_line(redact(str(one), by.secrets), 500) for one in findings],
        )
        return
    score = score_output(name, plain, earlier)
    row.state, row.output, row.findings = PhaseState.COMPLETED, plain, []
    row.score, row.checks, row.version = score.value, dict(score.checks), model.VERSION
    row.revision += 1
    # What was made of an older plan no longer counts.
    phases[PhaseName.SYNC].state = PhaseState.PENDING


def _outputs(phases: Mapping[PhaseName, Phase], before: PhaseName | None = None) -> dict[str, dict[str, Any]]:
    names = list(AGENT_PHASES)
    if before is not None:
        names = names[: names.index(before)]
    return {name.value: phases[name].output or {} for name in names if phases[name].output is not None}


def _count(value: object) -> int:
    return value if isinstance(value, int) and 0 <= value <= 1_000 else 0


def _told(findings: object, secrets: Sequence[str]) -> list[str]:
    """For people, from what the sandbox says; at most ten."""
    items = findings if isinstance(findings, list) else []
    told = []
    for item in items[:10]:
        text = f"{item.get('where', '')}: {item.get('message', '')}" if isinstance(item, dict) else str(item)
        told.append(sanitize_line(redact(text.removeprefix(": "), secrets), 500))
    return told


async def _note_sandbox(
    session: AsyncSession, step: Step, sandbox: Sandbox, events: list[Event], manifest: Manifest | None
) -> None:
    now = step.now()
    values: dict[str, Any] = {}
    if events:
        values["noted_seq"] = events[-1].seq
        session_id = events[-1].event_data.get("session_id")
        if isinstance(session_id, str) and len(session_id) <= 64:
            values["session_id"] = session_id
    if manifest is not None:
        values |= {"collected_round": manifest.round, "session_id": manifest.session_id}
    if sandbox.state is SandboxState.CREATING and (events or manifest):
        # It was done before any worker saw it run (the one that made it was killed).
        await move_sandbox(session, sandbox.id, SandboxState.RUNNING, now, started_at=now)
        sandbox.state = SandboxState.RUNNING
    if manifest is not None and manifest.status != "completed" and sandbox.state in SANDBOX_LIVE:
        await move_sandbox(session, sandbox.id, SandboxState.FAILED, now, reason=manifest.reason)
        sandbox.state = SandboxState.FAILED
    if values:
        await set_sandbox(session, sandbox.id, now, **values)
        for name, value in values.items():
            setattr(sandbox, name, value)


async def _go_on(
    step: Step, phases: Mapping[PhaseName, Phase], manifest: Manifest | None, exists: Exists
) -> datetime:
    failed = next((row for row in phases.values() if row.state is PhaseState.FAILED), None)
    if failed is not None:
        text = PHASE_FAILED.format(
            phase=failed.name, attempts=failed.attempts, reasons=_as_list(failed.findings)
        )
        return await _fail(step, text)
    if manifest is not None and (due_at := await _interrupted(step, manifest)) is not None:
        return due_at
    if manifest is not None and manifest.status == "failed":
        sandbox = step.planning_sandbox
        reason = key_trouble(step, sandbox) if sandbox is not None else None
        text = PLANNING_FAILED.format(reason=reason or failure_text(manifest, step.parts.secrets))
        return await _fail(step, text)
    ready = all(phases[name].state is PhaseState.COMPLETED for name in AGENT_PHASES)
    synced = phases[PhaseName.SYNC].state is PhaseState.COMPLETED
    if ready and synced and manifest is not None and manifest.round > 1 and manifest.summary:
        # It was asked something and changed nothing: what it says is the answer.
        said = sanitize_line(redact(manifest.summary, step.parts.secrets), 1_000)
        await step.add_note(PLAN_UNCHANGED.format(said=said))
    if not ready or synced:
        return step.again()
    report = sync_plan(_outputs(phases), exists)
    if not report.findings:
        return await _sync(step, _outputs(phases), report)
    if manifest is None and _is_at_it(step.planning_sandbox):
        return step.later(LOOK_S)  # one phase was revised; the agent is asked for those that no longer fit
    return await _fail(step, SYNC_FAILED.format(reasons=_as_list([str(one) for one in report.findings])))


async def _interrupted(step: Step, manifest: Manifest) -> datetime | None:
    """The agent was killed, or stopped for something that was wrong: another sandbox goes on where it was."""
    sandbox = step.planning_sandbox
    reason = interruption(sandbox, manifest) if sandbox is not None else None
    if sandbox is None or reason is None or all(name.value in step.outputs for name in AGENT_PHASES):
        return None
    text = await plan_interrupted(step, sandbox, reason)
    if text is None:
        return step.later(pause_s(step.spec.plan_attempts))
    return await _fail(step, PLANNING_FAILED.format(reason=text))


def _as_list(reasons: list[str]) -> str:
    return "\n".join(f"- {sanitize_line(one, 500)}" for one in reasons)


def _is_at_it(sandbox: Sandbox | None) -> bool:
    return sandbox is not None and sandbox.state in SANDBOX_LIVE and sandbox.activity != "waiting"


async def _fail(step: Step, text: str) -> datetime:
    """No plan came about. What phases came to that are done stays, so a retry starts at the first that is missing.

    While people look at a plan, only the change they asked for has failed: the plan as shown still stands.
    """
    spec = step.spec
    if spec.state is not SpecState.AWAITING_APPROVAL or spec.plan_shown is None:
        return await step.end(SpecState.FAILED, Outcome.FAILED, text)
    async with step.saving(notes=[*spec.notes, REVISION_FAILED.format(reason=text)]) as session:
        step.phases = await restore_phases(session, spec.id, spec.plan_shown, step.now())
    return step.again()


async def _sync(step: Step, outputs: dict[str, dict[str, Any]], report: SyncReport) -> datetime:
    """The last phase, ours alone: in which order, what serves what, and what are the tasks?"""
    now = step.now()
    items = {item["id"]: item for item in outputs[PhaseName.TASKS.value]["tasks"]}
    planned = [{**items[task.key], "depends_on": list(task.depends_on)} for task in report.tasks]
    tasks = [
        NewTask(item["id"], at, redact(item["title"], step.parts.secrets), item["description"], item)
        for at, item in enumerate([*planned, closing_item(report.order)], 1)
    ]
    async with step.saving(plan_hash=plan_hash(outputs), plan_attempts=0) as session:
        rows = {PhaseName(one.name): one for one in await record_phases(session, step.spec.id, now)}
        row = rows[PhaseName.SYNC]
        row.state, row.attempts, row.revision = PhaseState.COMPLETED, 1, row.revision + 1
        row.started_at = row.ended_at = row.updated_at = now
        row.output = report.as_output()
        await record_tasks(session, step.spec.id, tasks, now)
    return step.again()


async def _paths(step: Step, sha: str) -> Exists:
    """Whether a file or directory stands at a path of that commit."""
    files = await list_tree(mirror_path(step.parts, step.spec.repo_id), sha)
    known = set(files)
    for path in files:
        parts = path.split("/")
        known.update("/".join(parts[:end]) for end in range(1, len(parts)))
    return lambda path: path.rstrip("/") in known
