"""What an agent is told that plans, or that works on one task of a plan. Texts stand in texts/*.md. Pure.

The issue and the plan come from people and models: each passes the sanitising boundary once, here, and stands in a
frame whose lines it can't forge.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from string import Template
from typing import Any

from app.domain.plan import CLOSING, PlannedTask
from app.domain.prompt import frame, frame_issue, issue_title, read_text
from app.domain.sanitize import cut_text, sanitize_line, sanitize_text, size
from app.domain.spec import PHASE_MODELS, phase_schema
from app.domain.view import SpecView
from sandbox_payload.wire.plan import AGENT_PHASES, PhaseName, PhaseOrder

MAX_TASK_PROMPT = 100_000
"""Characters. GitHub's longest issue (65,536) fits in whole beside what is said of the task."""
MAX_FINISHED = 50_000
"""Characters of one finished phase's output, as JSON, in the prompt of a session that does not know it."""
MAX_COMMAND = 2_000

_SURROUNDINGS = 3_000
"""Of a task's prompt: our own words, names and the frames' lines."""
_DESCRIPTION_ROOM = 8_000
_FILES_ROOM = 2_000
_REQUIREMENTS_ROOM = 6_000
_DESIGN_ROOM = 6_000
_OUTCOMES_ROOM = 4_000

Outputs = Mapping[str, Mapping[str, Any]]
Done = tuple[str, str, str]
"""A finished task: key, title, and the summary its agent gave."""


def render_planning_system() -> str:
    return read_text("planning-system.md")


def phase_orders(phases: Sequence[PhaseName]) -> tuple[PhaseOrder, ...]:
    """What the sandbox asks the agent for, in the order of the phases. Raises KeyError for `sync`, which is ours."""
    return tuple(
        PhaseOrder(
            name=phase,
            version=PHASE_MODELS[phase].VERSION,
            instructions=read_text(f"phase-{phase.value}.md"),
            output_schema=phase_schema(phase),
        )
        for phase in phases
    )


def render_planning_prompt(
    view: SpecView,
    repository: str,
    *,
    setup: str | None,
    test: str | None,
    approval: bool,
    outputs: Outputs | None = None,
) -> str:
    """The first message of a planning session.

    `setup` and `test` are the commands that the repository's settings name; `approval`: whether people approve the
    plan before anything is built; `outputs`: what an earlier session finished, if this one does not know of it.
    """
    return Template(read_text("planning.md")).substitute(
        title=issue_title(view),
        repository=repository,
        base=view.base_branch or "the default branch",
        issue=frame_issue(view),
        commands=_planning_commands(setup, test),
        questions=_WITH_APPROVAL if approval else _WITHOUT_APPROVAL,
        finished=_finished(view, outputs or {}),
    )


def render_planning_continue(view: SpecView, outputs: Outputs) -> str:
    """The first message of a new sandbox in which the saved session of the planning goes on."""
    return Template(read_text("planning-continue.md")).substitute(
        title=issue_title(view), finished=", ".join(_finished_names(outputs)) or "nothing yet"
    )


def render_task_prompt(
    view: SpecView,
    repository: str,
    task: PlannedTask,
    outputs: Outputs,
    done: Sequence[Done],
    *,
    setup: str | None,
    test: str | None,
) -> str:
    """The first message of a task's session: only what that task needs, at most MAX_TASK_PROMPT characters.

    `outputs` are the plan's phases, `done` the tasks that were completed before it.
    """
    parts = (
        _task_part(task),
        _requirements_part(task, outputs.get(PhaseName.REQUIREMENTS, {})),
        _design_part(task, outputs.get(PhaseName.DESIGN, {})),
        _outcomes_part(task, done),
    )
    plan = frame("PLAN", view.issue_number, "\n\n".join(part for part in parts if part))
    commands = _task_commands(setup, test)
    # The issue gets what room the task leaves; that is enough for GitHub's longest.
    room = MAX_TASK_PROMPT - _SURROUNDINGS - size(plan) - size(commands)
    return Template(read_text("task.md")).substitute(
        key=_line(task.key),
        title=_line(task.title),
        repository=repository,
        branch=view.branch or "",
        base=view.base_branch or "",
        plan=plan,
        issue=frame_issue(view, room),
        commands=commands,
    )


def render_closing_prompt(
    view: SpecView,
    repository: str,
    outputs: Outputs,
    done: Sequence[Done],
    *,
    setup: str | None,
    test: str | None,
) -> str:
    """The first message of the closing task's session, as `render_task_prompt`."""
    requirements = outputs.get(PhaseName.REQUIREMENTS, {}).get("requirements", ())
    everything = PlannedTask(
        CLOSING, "", "", CLOSING,
        criteria=tuple(one["id"] for requirement in requirements for one in requirement["criteria"]),
        requirements=tuple(requirement["id"] for requirement in requirements),
        depends_on=tuple(key for key, _title, _summary in done),
    )  # fmt: skip
    parts = (
        _requirements_part(everything, outputs.get(PhaseName.REQUIREMENTS, {})),
        _outcomes_part(everything, done),
    )
    plan = frame("PLAN", view.issue_number, "\n\n".join(part for part in parts if part))
    commands = _task_commands(setup, test)
    room = MAX_TASK_PROMPT - _SURROUNDINGS - size(plan) - size(commands)
    return Template(read_text("closing.md")).substitute(
        repository=repository,
        branch=view.branch or "",
        base=view.base_branch or "",
        plan=plan,
        issue=frame_issue(view, room),
        commands=commands,
    )


_WITH_APPROVAL = (
    "People will read the plan and approve it before anything is built. Decide what can be decided sensibly and list "
    "it under assumptions; put what only they can decide into the open questions."
)
_WITHOUT_APPROVAL = (
    "Work begins as soon as the plan is done, and nobody will answer questions: decide sensibly yourself and list what "
    "you decided under assumptions."
)


def _planning_commands(setup: str | None, test: str | None) -> str:
    named = _named_commands(setup, test)
    if not named:
        return "The repository's settings name no commands: find out how it is set up and tested."
    return f"The repository's settings name these commands; they count, but try them:\n\n{named}"


def _task_commands(setup: str | None, test: str | None) -> str:
    named = _named_commands(setup, test)
    if not named:
        return "No command is known that runs the tests of this repository: look for one."
    return f"Commands of this repository (the tests are run once more after you, and their outcome counts):\n\n{named}"


def _named_commands(setup: str | None, test: str | None) -> str:
    rows = [
        f"{name}: {_line(text, MAX_COMMAND)}" for name, text in (("setup", setup), ("test", test)) if text
    ]
    return "\n".join(rows)


def _finished_names(outputs: Outputs) -> list[str]:
    return [phase.value for phase in AGENT_PHASES if phase in outputs]


def _finished(view: SpecView, outputs: Outputs) -> str:
    names = _finished_names(outputs)
    if not names:
        return ""
    texts = "\n".join(
        f"{name}:\n{cut_text(json.dumps(_clean(outputs[name]), ensure_ascii=False, indent=1), MAX_FINISHED)}"
        for name in names
    )
    return (
        f"\nFinished before, and not to be handed in again unless something changes them: {', '.join(names)}. "
        f"This is what they came to:\n\n{frame('PLAN', view.issue_number, texts)}"
    )


def _clean(value: Any) -> Any:
    """JSON with every text in it sanitized on its own: over the whole, an open comment would swallow the rest."""
    if isinstance(value, str):
        return sanitize_text(value)
    if isinstance(value, Mapping):
        return {key: _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value


def _task_part(task: PlannedTask) -> str:
    files = "\n".join(f"- {_line(file.change)} {_line(file.path, 1_000)}" for file in task.files)
    named = cut_text(files, _FILES_ROOM) or "(The plan names none.)"
    return (
        f"{_line(task.key)} ({_line(task.kind)}): {_line(task.title)}\n\n{_text(task.description, _DESCRIPTION_ROOM)}\n\n"
        f"Files:\n{named}"
    )


def _requirements_part(task: PlannedTask, output: Mapping[str, Any]) -> str:
    rows: list[str] = []
    for requirement in output.get("requirements", ()):
        criteria = requirement.get("criteria", ())
        mine = [criterion for criterion in criteria if criterion["id"] in task.criteria]
        if not mine and requirement["id"] not in task.requirements:
            continue
        rows.append(f"{_line(requirement['id'])}: {_line(requirement['statement'], 1_000)}")
        rows += [f"- {_line(criterion['id'])}: {_line(criterion['text'], 1_000)}" for criterion in mine]
    return _section(
        "Requirements it serves, with the acceptance criteria it has to fulfil:", rows, _REQUIREMENTS_ROOM
    )


def _design_part(task: PlannedTask, output: Mapping[str, Any]) -> str:
    paths = {file.path for file in task.files}
    rows = [_text(output.get("approach", ""), 2_000)]
    for component in output.get("components", ()):
        named = [file["path"] for file in component.get("files", ())]
        if paths.intersection(named):
            where = ", ".join(_line(path, 1_000) for path in named)
            rows.append(f"- {_line(component['name'])}: {_line(component['purpose'], 1_000)} ({where})")
    for field, name in (("error_handling", "Errors"), ("security", "Security"), ("test_strategy", "Tests")):
        said = _text(output.get(field, ""), 1_000)
        rows.append(f"{name}: {said}" if said else "")
    return _section("Design:", [row for row in rows if row], _DESIGN_ROOM)


def _outcomes_part(task: PlannedTask, done: Sequence[Done]) -> str:
    """What it depends on first and at length, the others in a line each."""
    needed = [item for item in done if item[0] in task.depends_on]
    others = [item for item in done if item[0] not in task.depends_on]
    rows = [f"- {_line(key)}, {_line(title)}: {_text(summary, 1_500)}" for key, title, summary in needed]
    rows += [f"- {_line(key)}, {_line(title)}" for key, title, _ in others]
    return _section(
        "Done before it, as their agents report; the result is in the work tree:", rows, _OUTCOMES_ROOM
    )


def _section(heading: str, rows: Iterable[str], room: int) -> str:
    body = "\n".join(rows)
    return f"{heading}\n{cut_text(body, room)}" if body else ""


def _line(text: str, limit: int = 300) -> str:
    return sanitize_line(text, limit)


def _text(text: str, limit: int) -> str:
    return cut_text(sanitize_text(text).strip(), limit)
