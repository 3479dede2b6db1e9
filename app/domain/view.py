"""What people are told about a spec, as plain data. Built by the worker, read by the renderers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Required, TypedDict, Unpack

from app.domain.guardian import Rule


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
    position: int = 0
    """Its place in the plan; only the order of these counts."""
    depends_on: tuple[str, ...] = ()
    """Keys of the tasks it waits for."""
    kind: str = ""


@dataclass(frozen=True)
class PhaseView:
    """One planning phase: `seconds` it took, once it has ended; `score` from 0 to 1; `findings` say why the newest
    output was refused. `state` is a PhaseState's value.
    """

    name: str
    state: str
    seconds: float | None
    attempts: int
    score: float | None
    findings: tuple[str, ...] = ()


@dataclass(frozen=True)
class AgentView:
    """The newest sandbox: `activity` is starting, working, waiting or ended."""

    sandbox_id: str
    attempt: int
    activity: str
    tools: int
    last_tool: str
    cost_usd: float
    model_key: str = ""
    """Whose model key it uses, as plain words; empty before its first call."""


@dataclass(frozen=True)
class MessageView:
    """Something that was said to the agent: by which login (empty: the operator), when (UTC), a MessageState's value, and
    where it can be read (empty for what is no comment).
    """

    login: str
    said_at: datetime
    state: str
    url: str = ""


@dataclass(frozen=True)
class CriterionView:
    """One acceptance criterion; `met` None: nothing was handed in about it. The texts are the model's."""

    key: str
    text: str
    met: bool | None = None
    evidence: str = ""


@dataclass(frozen=True)
class RunOfTests:
    """The repository's test command as it went at last; `exit_code` None: cut at its time limit."""

    command: str
    exit_code: int | None
    seconds: float


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
    timed_out: bool = False
    """Whether a task failed because its time was used up."""
    cancel_asked: bool = False
    pause_asked: bool = False
    paused_by: str = ""
    """Login of whoever asked for the pause; empty when Issuewright itself did."""
    waits_for: str = ""
    """For what the next sandbox has to wait, as a phrase; empty while nothing is short."""
    notes: tuple[str, ...] = ()
    status_untold: str = ""
    """Why the status comment can't be written, in GitHub's words."""
    check_untold: str = ""
    flow: str = "quick"
    """A Flow's value. Phases, plan and approval are shown only for a flow that plans."""
    phases: tuple[PhaseView, ...] = ()
    plan_hash: str = ""
    """Short, as people type it; empty before there is a plan."""
    plan_url: str = ""
    approval_awaited: bool = False
    approved_by: str = ""
    questions_url: str = ""
    approved_label: str = "agent:approved"
    criteria: tuple[CriterionView, ...] = ()
    """Once the closing task is done; before that nobody has looked."""
    test: RunOfTests | None = None
    tasks: tuple[TaskView, ...] = ()
    agent: AgentView | None = None
    messages: tuple[MessageView, ...] = ()
    """The newest ones, in their order."""
    reminders: tuple[Rule, ...] = ()
    """What the guardian reminded agents of, in order."""
    cost_usd: float = 0.0

    @property
    def is_planned(self) -> bool:
        return self.flow != "quick"


@dataclass(frozen=True)
class RequirementView:
    key: str
    statement: str
    criteria: tuple[tuple[str, str], ...] = ()
    """Pairs of id and text."""


@dataclass(frozen=True)
class ComponentView:
    name: str
    purpose: str
    files: tuple[tuple[str, str], ...] = ()
    """Pairs of path and what happens to it: create, modify or delete."""
    requirements: tuple[str, ...] = ()


@dataclass(frozen=True)
class DesignView:
    approach: str = ""
    components: tuple[ComponentView, ...] = ()
    data_changes: tuple[str, ...] = ()
    interface_changes: tuple[str, ...] = ()
    error_handling: str = ""
    security: str = ""
    test_strategy: str = ""
    alternatives: tuple[tuple[str, str], ...] = ()
    """Pairs of an option and why it was refused."""


@dataclass(frozen=True)
class PlanTaskView:
    key: str
    title: str
    kind: str
    description: str = ""
    depends_on: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    estimate_hours: float = 0.0


@dataclass(frozen=True)
class PlanView:
    """A whole plan for people. All texts are the model's, unescaped; `tasks` stand in the order they will run."""

    spec_id: str
    issue_number: int
    revision: int
    """How many plans were shown for this spec, this one included."""
    full_hash: str
    """People see and write its first 8 characters."""
    requirements: tuple[RequirementView, ...] = ()
    design: DesignView = DesignView()
    tasks: tuple[PlanTaskView, ...] = ()
    assumptions: tuple[str, ...] = ()
    out_of_scope: tuple[str, ...] = ()
    scores: tuple[tuple[str, float], ...] = ()
    """Pairs of phase and quality from 0 to 1."""
    coverage: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Pairs of a requirement's key and the tasks that serve it."""
    conflicts: tuple[str, ...] = ()
    """Sentences on tasks that are put one after the other, since they change the same files."""
    changes: tuple[str, ...] = ()
    """What differs from the plan that was shown before, in sentences, unescaped."""
    done: frozenset[str] = frozenset()
    """Keys of the tasks that are done."""
    approval_awaited: bool = False
    approved_by: str = ""
    approved_label: str = "agent:approved"

    @property
    def short_hash(self) -> str:
        return self.full_hash[:8]

    @classmethod
    def of(
        cls,
        outputs: Mapping[str, Mapping[str, Any]],
        sync: Mapping[str, Any],
        *,
        scores: Mapping[str, float] | None = None,
        **facts: Unpack[PlanFacts],
    ) -> PlanView:
        """From the outputs of the phases, which have passed their gates, and of sync: `order`, `coverage`,
        `conflicts` and `depends_on` (those that sync added included). Without them the plan's own order and references count.
        """
        needs = outputs.get("requirements", {})
        tasks = _tasks(outputs.get("tasks", {}).get("tasks", ()), sync)
        coverage = sync.get("coverage") or {
            item["id"]: [task.key for task in tasks if item["id"] in task.requirements]
            for item in needs.get("requirements", ())
        }
        return cls(
            requirements=tuple(
                RequirementView(
                    item["id"],
                    item["statement"],
                    tuple((one["id"], one["text"]) for one in item.get("criteria", ())),
                )
                for item in needs.get("requirements", ())
            ),
            design=_design(outputs.get("design", {})),
            tasks=tasks,
            assumptions=tuple(needs.get("assumptions", ())),
            out_of_scope=tuple(needs.get("out_of_scope", ())),
            scores=tuple((scores or {}).items()),
            coverage=tuple((key, tuple(keys)) for key, keys in coverage.items()),
            conflicts=tuple(_conflict(one) for one in sync.get("conflicts", ())),
            **facts,
        )


class PlanFacts(TypedDict, total=False):
    """What a plan's outputs do not say; fields of PlanView."""

    spec_id: Required[str]
    issue_number: Required[int]
    revision: Required[int]
    full_hash: Required[str]
    changes: tuple[str, ...]
    done: frozenset[str]
    approval_awaited: bool
    approved_by: str
    approved_label: str


def _conflict(found: Mapping[str, Any]) -> str:
    paths = ", ".join(f"`{path}`" for path in found["paths"][:5])
    more = f" and {len(found['paths']) - 5} more" if len(found["paths"]) > 5 else ""
    return f"{found['second']} waits for {found['first']}, since both change {paths}{more}."


def _files(items: Iterable[Mapping[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((item["path"], item["change"]) for item in items)


def _design(output: Mapping[str, Any]) -> DesignView:
    return DesignView(
        approach=output.get("approach", ""),
        components=tuple(
            ComponentView(
                one["name"], one["purpose"], _files(one.get("files", ())), tuple(one["requirements"])
            )
            for one in output.get("components", ())
        ),
        data_changes=tuple(output.get("data_changes", ())),
        interface_changes=tuple(output.get("interface_changes", ())),
        error_handling=output.get("error_handling", ""),
        security=output.get("security", ""),
        test_strategy=output.get("test_strategy", ""),
        alternatives=tuple((one["option"], one["refused_because"]) for one in output.get("alternatives", ())),
    )


def _tasks(items: Iterable[Mapping[str, Any]], sync: Mapping[str, Any]) -> tuple[PlanTaskView, ...]:
    place = {key: at for at, key in enumerate(sync.get("order", ()))}
    depends_on = sync.get("depends_on", {})
    tasks = [
        PlanTaskView(
            key=item["id"],
            title=item["title"],
            kind=item["kind"],
            description=item.get("description", ""),
            depends_on=tuple(depends_on.get(item["id"], item.get("depends_on", ()))),
            requirements=tuple(item.get("requirements", ())),
            criteria=tuple(item.get("criteria", ())),
            files=_files(item.get("files", ())),
            estimate_hours=item.get("estimate_hours", 0.0),
        )
        for item in items
    ]
    return tuple(sorted(tasks, key=lambda task: place.get(task.key, len(place))))


@dataclass(frozen=True)
class QuestionView:
    key: str
    question: str
    blocking: bool = True
    """The agent can't go on without an answer."""


def without_counters(view: SpecView) -> SpecView:
    """The same view with every number that only grows left out: what differs here is news."""
    agent = replace(view.agent, tools=0, last_tool="", cost_usd=0.0, model_key="") if view.agent else None
    return replace(view, agent=agent, cost_usd=0.0)
