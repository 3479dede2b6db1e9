"""The plan as a graph: what serves what, in which order, what may run side by side. Pure; this is the phase `sync`.

Done by code because a model that says "all requirements are covered" may be wrong.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from app.domain.spec import (
    BadOutput,
    PhaseOutput,
    PlanTask,
    RequirementsOutput,
    TasksOutput,
    normalize_output,
    parse_output,
)
from sandbox_payload.wire.gates import find_faults_of_all
from sandbox_payload.wire.graph import stable_order
from sandbox_payload.wire.plan import AGENT_PHASES, Finding, PhaseName

PLAN_PHASES = (PhaseName.REQUIREMENTS, PhaseName.DESIGN, PhaseName.TASKS)
"""What people agree to. What was explored is how the agent got there."""


CLOSING = "closing"
"""Key and kind of the last task, which no model plans: the whole is checked against every criterion."""


FOLLOW_UP = "follow_up"
"""Kind of a task that people's words made, after the work was ready for review."""


@dataclass(frozen=True)
class PlannedFile:
    path: str
    change: str
    """create, modify or delete."""


@dataclass(frozen=True)
class PlannedTask:
    """One task of the plan. `depends_on` is all it waits for, also what the order of shared files adds."""

    key: str
    title: str
    description: str
    kind: str
    files: tuple[PlannedFile, ...] = ()
    criteria: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    estimate_hours: float = 1.0

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> PlannedTask:
        """From an item of a tasks phase that passed. Raises KeyError on anything else."""
        return cls(
            key=item["id"],
            title=item["title"],
            description=item["description"],
            kind=item["kind"],
            files=tuple(PlannedFile(file["path"], file["change"]) for file in item["files"]),
            criteria=tuple(item["criteria"]),
            requirements=tuple(item["requirements"]),
            depends_on=tuple(dict.fromkeys(item.get("depends_on", ()))),
            estimate_hours=item["estimate_hours"],
        )


def closing_item(keys: Sequence[str]) -> dict[str, Any]:
    """The item of the closing task, in the form of the tasks phase's; it waits for all others."""
    return {
        "id": CLOSING,
        "title": "Check the whole against the plan's acceptance criteria",
        "description": "Runs the test command and shows for each acceptance criterion whether it is met.",
        "kind": CLOSING,
        "files": [],
        "criteria": [],
        "requirements": [],
        "depends_on": list(keys),
        "estimate_hours": 1.0,
    }


@dataclass(frozen=True)
class Conflict:
    """Two tasks that nothing orders and that name the same files: `second` is made to wait for `first`."""

    first: str
    second: str
    paths: tuple[str, ...]


@dataclass(frozen=True)
class SyncReport:
    """What `sync` found. With `findings` the plan can't be carried out, and everything else is empty."""

    tasks: tuple[PlannedTask, ...] = ()
    """In the order they are to be done."""
    coverage: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Requirement id to the keys of the tasks that serve it, in order."""
    levels: tuple[tuple[str, ...], ...] = ()
    """Tasks of one level may run side by side once the levels before it are done."""
    conflicts: tuple[Conflict, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def order(self) -> tuple[str, ...]:
        return tuple(task.key for task in self.tasks)

    @property
    def depends_on(self) -> dict[str, tuple[str, ...]]:
        """Task key to the keys of all it waits for."""
        return {task.key: task.depends_on for task in self.tasks}

    def as_output(self) -> dict[str, Any]:
        """As JSON, what is stored as the output of the phase `sync`."""
        return {
            "order": list(self.order),
            "depends_on": {key: list(needs) for key, needs in self.depends_on.items()},
            "coverage": {key: list(tasks) for key, tasks in self.coverage.items()},
            "levels": [list(level) for level in self.levels],
            "conflicts": [{**asdict(found), "paths": list(found.paths)} for found in self.conflicts],
        }


def sync_plan(outputs: Mapping[str, Mapping[str, Any]], exists: Callable[[str], bool]) -> SyncReport:
    """Check all phases' outputs against one another and put the tasks in order.

    `exists`: whether a file or directory of the repository stands at a path at the start commit. Where a finding is
    begins with the phase it is in.
    """
    models, findings = _judge(outputs, exists)
    tasks_output, stated = models.get(PhaseName.TASKS), models.get(PhaseName.REQUIREMENTS)
    if findings or not isinstance(tasks_output, TasksOutput) or not isinstance(stated, RequirementsOutput):
        return SyncReport(findings=findings)
    listed = tasks_output.tasks
    by_key = {task.id: task for task in listed}
    order = stable_order({task.id: task.depends_on for task in listed})
    implied, conflicts = _separate([by_key[key] for key in order])
    tasks = tuple(
        PlannedTask.of({**task, "depends_on": [*task["depends_on"], *implied[task["id"]]]})
        for task in (by_key[key].model_dump(mode="json") for key in order)
    )
    coverage = {
        requirement.id: tuple(
            task.key
            for task in tasks
            if requirement.id in task.requirements
            or any(criterion.id in task.criteria for criterion in requirement.criteria)
        )
        for requirement in stated.requirements
    }
    return SyncReport(tasks=tasks, coverage=coverage, levels=_levels(tasks), conflicts=conflicts)


def _judge(
    outputs: Mapping[str, Mapping[str, Any]], exists: Callable[[str], bool]
) -> tuple[dict[PhaseName, PhaseOutput], tuple[Finding, ...]]:
    """All four outputs as models, or what is wrong with them."""
    models: dict[PhaseName, PhaseOutput] = {}
    findings: list[Finding] = []
    for phase in AGENT_PHASES:
        if phase not in outputs:
            findings.append(Finding(rule="missing_phase", message="This phase has no output.", where=phase))
            continue
        try:
            models[phase] = parse_output(phase, outputs[phase])
        except BadOutput as error:
            findings += _placed(phase, error.findings)
    if not findings:
        for phase, faults in find_faults_of_all(outputs, exists).items():
            findings += _placed(phase, faults)
    return models, tuple(findings)


def _placed(phase: PhaseName, findings: Sequence[Finding]) -> list[Finding]:
    return [
        finding.model_copy(update={"where": f"{phase}.{finding.where}".rstrip(".")[:300]})
        for finding in findings
    ]


def _separate(ordered: Sequence[PlanTask]) -> tuple[dict[str, list[str]], tuple[Conflict, ...]]:
    """For each task the tasks it must wait for besides its own dependencies, so that no two at work name one file."""
    place = {task.id: index for index, task in enumerate(ordered)}
    # Some file systems take names that differ only in case for one.
    paths = [{file.path.casefold(): file.path for file in task.files} for task in ordered]
    before_as_planned: list[int] = []  # as bits: all that comes before a task, by its dependencies alone
    before: list[int] = []  # and with the implied ones
    implied: dict[str, list[str]] = {task.id: [] for task in ordered}
    conflicts: list[Conflict] = []
    for second, task in enumerate(ordered):
        needs = [place[key] for key in task.depends_on]
        before_as_planned.append(_union(needs, before_as_planned))
        reached = _union(needs, before)
        # The nearest first: what it waits for itself need not be named again.
        for first in reversed(range(second)):
            shared = paths[first].keys() & paths[second].keys()
            if not shared or before_as_planned[second] >> first & 1:
                continue
            named = tuple(sorted(paths[second][path] for path in shared))
            conflicts.append(Conflict(ordered[first].id, task.id, named))
            if not reached >> first & 1:
                implied[task.id].insert(0, ordered[first].id)
                reached |= _union([first], before)
        before.append(reached)
    return implied, tuple(sorted(conflicts, key=lambda found: (place[found.first], place[found.second])))


def _union(places: Collection[int], before: Sequence[int]) -> int:
    bits = 0
    for place in places:
        bits |= 1 << place | before[place]
    return bits


def _levels(tasks: Sequence[PlannedTask]) -> tuple[tuple[str, ...], ...]:
    level: dict[str, int] = {}
    rows: list[list[str]] = []
    for task in tasks:
        level[task.key] = max((level[need] + 1 for need in task.depends_on), default=0)
        if level[task.key] == len(rows):
            rows.append([])
        rows[level[task.key]].append(task.key)
    return tuple(map(tuple, rows))


def plan_hash(outputs: Mapping[str, Mapping[str, Any]]) -> str:
    """SHA-256, in hex, of the plan as people see it: requirements, design and tasks, whatever the order of their keys
    and whether optional fields are left out. Raises KeyError when one is missing, BadOutput when one is malformed.
    """
    plan = {phase.value: normalize_output(phase, outputs[phase]) for phase in PLAN_PHASES}
    text = json.dumps(plan, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def short_hash(plan: str) -> str:
    """What people see of a plan's hash, and write after `/agent approve`."""
    return plan[:8]
