"""What a sandbox is told and given: its brief, its texts, its environment, the session it goes on with."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime

from app.db.models import Sandbox
from app.db.sandboxes import find_last_transcript, find_latest_transcript, get_artifact_bytes, set_sandbox
from app.domain.ids import SandboxId
from app.domain.plan import CLOSING, FOLLOW_UP, PlannedTask
from app.domain.planning import (
    phase_orders,
    render_closing_prompt,
    render_planning_continue,
    render_planning_prompt,
    render_planning_system,
    render_task_prompt,
)
from app.domain.ports import SandboxOrder
from app.domain.prompt import (
    render_anew,
    render_conflict,
    render_continue,
    render_follow_up,
    render_forgotten,
    render_prompt,
    render_system,
)
from app.domain.spare import SandboxSize
from app.domain.states import TaskState
from sandbox_payload import wire
from sandbox_payload.wire.evidence import Criterion
from sandbox_payload.wire.plan import AGENT_PHASES, PhaseName
from worker.flow.follow import is_left
from worker.flow.model_key import direct_model
from worker.mirrors import mirror_path
from worker.parts import Limits
from worker.step import Step

DEADLINE_MARGIN_S = 300


@dataclass(frozen=True)
class Resumed:
    """A saved session that a sandbox goes on with; `begun_at`: when the sandbox was made that it is from."""

    session_id: str
    transcript: bytes
    begun_at: datetime


def sandbox_token(key: bytes, sandbox_id: str) -> str:
    """The bearer token of one sandbox: derived, so that a worker that takes over can hand in the same one."""
    return "iws_" + hmac.new(key, f"sandbox:{sandbox_id}".encode(), hashlib.sha256).hexdigest()


def usual_size(limits: Limits) -> SandboxSize:
    """Of a sandbox whose repository asks for nothing smaller."""
    return SandboxSize(
        limits.memory_gb, limits.cpu, limits.disk_gb, _time_limit_s(limits), tuple(limits.allow_hosts)
    )


def _time_limit_s(limits: Limits) -> int:
    return limits.task_timeout_s + limits.idle_s + DEADLINE_MARGIN_S


async def make_order(step: Step, sandbox: Sandbox) -> SandboxOrder:
    """The same order each time it is made for the same sandbox."""
    spec, limits, settings = step.spec, step.parts.limits, step.settings
    resumed = await _saved_session(step, sandbox)
    session_id, transcript = (resumed.session_id, resumed.transcript) if resumed is not None else (None, None)
    brief = await _brief(step, sandbox, session_id)
    inputs = {
        wire.SYSTEM_FILE: (render_planning_system() if sandbox.task_id is None else render_system()).encode(),
        wire.PROMPT_FILE: _prompt(step, sandbox, brief, resumed).encode(),
        wire.BRIEF_FILE: brief.model_dump_json().encode(),
    }
    if transcript is not None:
        inputs[wire.TRANSCRIPT_FILE] = transcript
        inputs[wire.PROMPT_ANEW_FILE] = _prompt(step, sandbox, brief, None).encode()
    environment = {
        "SANDBOX_ID": sandbox.id,
        "SPEC_ID": spec.id,
        "SPEC_PHASE": sandbox.phase or "",
        "TASK_ID": sandbox.task_id or "",
        "PROJECT_ID": str(spec.repo_id),
        "USER_ID": str(spec.labeler_id),
        "BRANCH_NAME": brief.branch,
        "GITHUB_REPO_OWNER": step.repo.owner,
        "GITHUB_REPO_NAME": step.repo.name,
        "MODEL": sandbox.model or "",
        "RESUME_SESSION_ID": session_id or "",
    }
    labels = {"issuewright": step.parts.instance, "spec": spec.id, "sandbox": sandbox.id}
    return SandboxOrder(
        sandbox_id=SandboxId(sandbox.id), name=sandbox.provider_name, labels=labels, environment=environment,
        inputs=inputs, token=sandbox_token(step.parts.token_key, sandbox.id),
        mirror=mirror_path(step.parts, spec.repo_id), branch=brief.branch, start_sha=sandbox.start_sha,
        agent_config_sha=spec.base_sha or sandbox.start_sha, memory_gb=sandbox.memory_gb or settings.memory_gb, cpu=settings.cpu,
        disk_gb=settings.disk_gb, time_limit_s=_time_limit_s(limits),
        allow_hosts=limits.allow_hosts, direct_model=await direct_model(step),
    )  # fmt: skip


async def _brief(step: Step, sandbox: Sandbox, session_id: str | None) -> wire.Brief:
    spec, limits = step.spec, step.parts.limits
    identity = await step.parts.identity()
    planning = sandbox.task_id is None
    setup, test = _commands(step)
    return wire.Brief(
        sandbox_id=sandbox.id, spec_id=spec.id, task_id=sandbox.task_id, phase=sandbox.phase,
        title=(spec.title if planning else step.task.title)[:300], repository=step.repo.full_name,
        # A plan changes nothing, so there is no branch of its own yet.
        branch=(spec.base_branch if planning else spec.branch) or "",
        start_sha=sandbox.start_sha, model=sandbox.model,
        permission_mode="bypassPermissions" if limits.permission_mode == "bypassPermissions" else "acceptEdits",
        max_turns=limits.max_turns, max_budget_usd=sandbox.budget_usd, task_timeout_s=limits.task_timeout_s,
        idle_s=_idle_s(step, sandbox), resume_session_id=session_id, author_name=identity.bot_login,
        author_email=identity.email, setup_command=setup, test_command=None if planning else test,
        phases=list(phase_orders(AGENT_PHASES)) if planning else [],
        outputs=step.outputs if planning else {},
        criteria=[] if planning or step.task.key != CLOSING else _criteria(step),
    )  # fmt: skip


def _criteria(step: Step) -> list[Criterion]:
    requirements = step.outputs.get(PhaseName.REQUIREMENTS.value, {}).get("requirements", ())
    return [
        Criterion(id=one["id"], text=one["text"])
        for requirement in requirements
        for one in requirement["criteria"]
    ]


def _idle_s(step: Step, sandbox: Sandbox) -> int:
    """Only the last sandbox of the work waits for what people say; the others make room for the next task."""
    others = [task for task in step.tasks if task.id != sandbox.task_id]
    last = sandbox.task_id is None or not any(map(is_left, others))
    return step.parts.limits.idle_s if last else 0


def _commands(step: Step) -> tuple[str | None, str | None]:
    """The repository's setup and test commands: as its settings say, else as the plan found them to work."""
    settings, explored = step.settings, step.outputs.get(PhaseName.EXPLORE.value, {})

    def found(name: str) -> str | None:
        tried = explored.get(name) or {}
        return tried.get("command") if tried.get("worked") else None

    return settings.setup or found("setup"), settings.test or found("test")


def _prompt(step: Step, sandbox: Sandbox, brief: wire.Brief, resumed: Resumed | None) -> str:
    repository = step.repo.full_name
    if sandbox.task_id is None:
        if resumed:
            return render_planning_continue(step.view, brief.outputs)
        settings = step.spec.settings or {}
        return render_planning_prompt(
            step.view, repository, setup=settings.get("setup"), test=settings.get("test"),
            approval=step.approval_required, outputs=brief.outputs,
        )  # fmt: skip
    # A conflict is one of the work that stands, whoever solves it; quick work has no planned task that could be shown.
    goes_on = step.task.detail.get("kind") == FOLLOW_UP or bool(step.task.detail.get("conflict"))
    if resumed or goes_on:
        text = _prompt_going_on(step, resumed)
        return text if resumed else f"{text}\n\n{render_forgotten(step.view)}"
    task = step.task
    if "id" not in task.detail:
        return render_prompt(step.view, repository)
    done = [
        (task.key, task.title, task.summary or "")
        for task in step.tasks
        if task.state is TaskState.COMPLETED and task.key != step.task.key
    ]
    if task.key == CLOSING:
        return render_closing_prompt(
            step.view, repository, step.outputs, done, setup=brief.setup_command, test=brief.test_command
        )
    return render_task_prompt(
        step.view, repository, PlannedTask.of(step.task.detail), step.outputs, done,
        setup=brief.setup_command, test=brief.test_command,
    )  # fmt: skip


def _prompt_going_on(step: Step, resumed: Resumed | None) -> str:
    detail = step.task.detail
    anew_at = detail.get("anew_at")
    if resumed is not None and anew_at and resumed.begun_at < datetime.fromisoformat(anew_at):
        return render_anew(step.view, step.task.title)
    if detail.get("conflict"):
        return render_conflict(step.view, step.task.title, detail["conflict"])
    if detail.get("kind") == FOLLOW_UP and not detail.get("goes_on"):
        return render_follow_up(step.view)
    return render_continue(step.view)


async def _saved_session(step: Step, sandbox: Sandbox) -> Resumed | None:
    """The session of an earlier attempt whose work this one stands on."""
    async with step.parts.db.read() as session:
        found = await find_latest_transcript(session, sandbox.spec_id, sandbox.task_id)
        if found is None and sandbox.task_id is not None and step.task.detail.get("kind") == FOLLOW_UP:
            found = await find_last_transcript(session, sandbox.spec_id)
        if found is None or found[0].id == sandbox.id or found[0].session_id is None:
            return None
        data = await get_artifact_bytes(session, found[1].id)
    async with step.parts.db.write() as session:
        await set_sandbox(session, sandbox.id, step.now(), session_id=found[0].session_id)
    return Resumed(found[0].session_id, data, found[0].created_at)
