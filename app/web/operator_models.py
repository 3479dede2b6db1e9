"""What the operator API answers with."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from app.db.models import Event, Intervention, Phase, Sandbox, Spec, Task
from app.db.operator_views import SandboxRow, SpecRow, TaskRow
from app.domain.states import Flow, MessageState, PhaseState, SandboxState, SpecState, TaskState
from app.web.supervised import SupervisionView
from sandbox_payload.wire import MessageType
from sandbox_payload.wire.plan import PhaseName

ItemT = TypeVar("ItemT", bound=BaseModel)


class Page(BaseModel, Generic[ItemT]):
    """`next_cursor` leads to the next page; null on the last one."""

    items: list[ItemT]
    next_cursor: str | None


class SpecItem(BaseModel):
    id: str
    state: SpecState
    repository: str
    issue: int
    created_at: datetime
    updated_at: datetime
    title: str
    flow: Flow
    pull_request: int | None
    outcome: str | None
    waits_for: str
    """What keeps its next sandbox from starting, in words; empty when nothing does."""
    told: list[str] = []
    """What people were told about it beside other work: files, duplicate, standstill."""

    @classmethod
    def of(cls, row: SpecRow, told: Sequence[str] = ()) -> SpecItem:
        return cls(**_spec_fields(row.spec, row.repository), told=list(told))


def _spec_fields(spec: Spec, repository: str) -> dict[str, Any]:
    return {
        "id": spec.id,
        "state": spec.state,
        "repository": repository,
        "issue": spec.issue_number,
        "created_at": spec.created_at,
        "updated_at": spec.updated_at,
        "title": spec.title,
        "flow": spec.flow,
        "pull_request": spec.pull_number,
        "outcome": spec.outcome,
        "waits_for": spec.waits_for,
    }


class TaskItem(BaseModel):
    id: str
    spec_id: str
    state: TaskState
    repository: str
    issue: int
    created_at: datetime
    updated_at: datetime
    key: str
    title: str
    attempts: int

    @classmethod
    def of(cls, row: TaskRow) -> TaskItem:
        return cls(**_task_fields(row.task, row.spec, row.repository))


class TaskView(TaskItem):
    description: str
    summary: str | None
    reason: str | None
    detail: dict[str, Any]
    """The item as the plan has it (kind, files, criteria, requirements, depends_on); {} for a quick one."""

    @classmethod
    def of(cls, row: TaskRow) -> TaskView:
        task = row.task
        return cls(
            **_task_fields(task, row.spec, row.repository),
            description=task.description,
            summary=task.summary,
            reason=task.reason,
            detail=task.detail,
        )


def _task_fields(task: Task, spec: Spec, repository: str) -> dict[str, Any]:
    return {
        "id": task.id,
        "spec_id": task.spec_id,
        "state": task.state,
        "repository": repository,
        "issue": spec.issue_number,
        "created_at": task.created_at,
        "updated_at": task.updated_at,
        "key": task.key,
        "title": task.title,
        "attempts": task.attempts,
    }


class SandboxItem(BaseModel):
    id: str
    spec_id: str
    state: SandboxState
    repository: str
    issue: int
    created_at: datetime
    updated_at: datetime
    task_id: str | None
    attempt: int
    reason: str | None
    activity: str | None
    """starting, working, waiting or ended; null before its agent was heard of."""

    @classmethod
    def of(cls, row: SandboxRow) -> SandboxItem:
        return cls(**_sandbox_fields(row.sandbox, row.spec, row.repository))


class SandboxView(SandboxItem):
    provider: str
    provider_name: str
    host_id: str | None
    phase: str | None
    model: str | None
    budget_usd: float
    spent_usd: float
    reserved_usd: float
    model_key_of: str | None
    """Whose model key its calls use: user (who set the label), installation or operator; null before the first."""
    model_key_trouble: str | None
    """Why the newest call did not get past that key: the upstream's status, or the reason."""
    session_id: str | None
    last_seq: int
    events_passed_over: int
    """Acknowledged and not stored, since there were too many."""
    archived_at: datetime | None
    """When its events were written to the archive, to be removed here."""
    turns: int
    tools: int
    last_tool: str | None
    manifest_round: int
    exit_code: int | None
    last_heartbeat_at: datetime | None
    last_work_at: datetime | None
    deadline_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    removed_at: datetime | None
    interventions: list[str]
    """What the guardian did about its agent: when, how, and by which rule."""
    supervision: SupervisionView | None = None

    @classmethod
    def of(cls, row: SandboxRow, done: Sequence[Intervention] = ()) -> SandboxView:
        added = {"interventions", "supervision"}
        shown = set(SandboxView.model_fields) - set(SandboxItem.model_fields) - added
        return cls(
            **_sandbox_fields(row.sandbox, row.spec, row.repository),
            **{name: getattr(row.sandbox, name) for name in shown},
            interventions=[f"{one.created_at:%Y-%m-%d %H:%M:%S} {one.event_type} {one.rule}" for one in done],
        )


def _sandbox_fields(sandbox: Sandbox, spec: Spec, repository: str) -> dict[str, Any]:
    return {
        "id": sandbox.id,
        "spec_id": sandbox.spec_id,
        "state": sandbox.state,
        "repository": repository,
        "issue": spec.issue_number,
        "created_at": sandbox.created_at,
        "updated_at": sandbox.updated_at,
        "task_id": sandbox.task_id,
        "attempt": sandbox.attempt,
        "reason": sandbox.reason,
        "activity": sandbox.activity if sandbox.ended_at is None else "ended",
    }


class PhaseView(BaseModel):
    """One planning phase of a spec; a quick one has none. `checks` are the parts of the score, 0 to 1 each."""

    phase: PhaseName
    state: PhaseState
    version: int
    revision: int
    attempts: int
    score: float | None
    checks: dict[str, float]
    findings: list[str]
    output: dict[str, Any] | None
    sandbox_id: str | None
    started_at: datetime | None
    ended_at: datetime | None

    @classmethod
    def of(cls, row: Phase) -> PhaseView:
        shown = set(cls.model_fields) - {"phase"}
        return cls(phase=PhaseName(row.name), **{name: getattr(row, name) for name in shown})


class CheckView(BaseModel):
    head_sha: str
    check_run_id: int | None
    conclusion: str | None


class SpecView(SpecItem):
    trigger_label: str
    labeler: str
    base_branch: str | None
    branch: str | None
    head_sha: str | None
    pull_request_url: str | None
    status_comment_url: str | None
    outcome_detail: str | None
    notes: list[str]
    cancel_reason: str | None
    cost_usd: float
    plan_hash: str | None
    plan_comment_url: str | None
    approved_by: str | None
    settings: dict[str, Any] | None
    """The repository's own, within the operator's limits, as they stood when the spec started."""
    phases: list[PhaseView]
    tasks: list[TaskItem]
    sandbox_ids: list[str]
    checks: list[CheckView]
    ended_at: datetime | None


class EventItem(BaseModel):
    seq: int
    event_type: str
    event_data: dict[str, Any]
    source: str
    timestamp: datetime
    received_at: datetime

    @classmethod
    def of(cls, event: Event) -> EventItem:
        return cls(
            seq=event.seq,
            event_type=event.event_type,
            event_data=event.event_data,
            source=event.source,
            timestamp=event.timestamp,
            received_at=event.received_at,
        )


class HeartbeatRun(BaseModel):
    """Heartbeats in a row, folded."""

    event_type: Literal["agent.heartbeat"] = "agent.heartbeat"
    count: int
    first_at: datetime
    last_at: datetime


class Trajectory(BaseModel):
    items: list[HeartbeatRun | EventItem]
    next_cursor: str | None


class SilentSandbox(BaseModel):
    id: str
    spec_id: str
    state: SandboxState
    heard_at: datetime | None


class SandboxHealth(BaseModel):
    """`silent`: live and started, but not heard of for two minutes."""

    live: int
    working: int
    waiting: int
    by_state: dict[SandboxState, int]
    silent: list[SilentSandbox]


class MessageAsk(BaseModel):
    model_config = ConfigDict(extra="forbid")

    content: str = Field(min_length=1, max_length=65_536)
    message_type: MessageType = MessageType.USER_MESSAGE


class MessageReceipt(BaseModel):
    id: str
    seq: int
    state: MessageState


class CancelReceipt(BaseModel):
    spec_id: str
    status: Literal["cancelling"] = "cancelling"


class ExecuteAsk(BaseModel):
    model_config = ConfigDict(extra="forbid")

    resume_from_phase: str | None = Field(default=None, max_length=64)


class ExecuteReceipt(BaseModel):
    spec_id: str
    status: Literal["queued", "started"]
    current_phase: str | None
    sandbox_id: str | None
    message: str
