"""What people are told about a spec, as plain data. Built by the worker, read by the renderers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class Outcome(StrEnum):
    """How a spec's work ended, told honestly."""

    DONE = "done"
    NO_CHANGES = "no_changes"
    PUSH_REFUSED = "push_refused"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class TaskView:
    key: str
    title: str
    state: str
    summary: str = ""


@dataclass(frozen=True)
class AgentView:
    """The newest sandbox: `activity` is starting, working, waiting or ended."""

    sandbox_id: str
    attempt: int
    activity: str
    tools: int
    last_tool: str
    cost_usd: float


@dataclass(frozen=True)
class SpecView:
    spec_id: str
    issue_number: int
    state: str
    title: str
    body: str
    labeler_login: str
    trigger_label: str
    base_branch: str | None = None
    default_branch: str | None = None
    branch: str | None = None
    branch_url: str = ""
    head_sha: str | None = None
    start_sha: str | None = None
    pull_number: int | None = None
    pull_url: str = ""
    outcome: Outcome | None = None
    outcome_detail: str = ""
    cancel_asked: bool = False
    notes: tuple[str, ...] = ()
    status_untold: str = ""
    """Why the status comment can't be written, in GitHub's words."""
    check_untold: str = ""
    tasks: tuple[TaskView, ...] = ()
    agent: AgentView | None = None
    cost_usd: float = 0.0


def without_counters(view: SpecView) -> SpecView:
    """The same view with every number that only grows left out: what differs here is news."""
    agent = replace(view.agent, tools=0, last_tool="", cost_usd=0.0) if view.agent else None
    return replace(view, agent=agent, cost_usd=0.0)
