"""The hard rules of planning: what decides whether a phase's output passes, and can't be outvoted.

Run inside the sandbox, where the agent can still mend, and again by the app on arrival, which believes nothing. Pure,
over plain JSON. Written for outputs of the right schema, but no JSON makes them raise. Messages are for the agent: they
say what to do, and quote its own texts only shortened and escaped.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from sandbox_payload.wire.graph import find_cycles, stable_order
from sandbox_payload.wire.plan import AGENT_PHASES, MAX_OUTPUT_BYTES, Finding, PhaseName

MAX_TASKS = 60
MAX_TASK_HOURS = 4.0
MAX_MESSAGE = 1_500
MAX_FINDINGS = 40
"""Of one output: an agent can't act on more at once, and they travel in an event."""

Json = Mapping[str, Any]
Exists = Callable[[str], bool]
"""Whether a file or directory of the repository stands at this path at the start commit. Asked only about relative
paths without `..`."""

_BAD_NAME = re.compile(r"(?:^|/)(?:\.{0,2}|\.git[. ]*)(?:/|$)", re.IGNORECASE)
"""A name in a path that is empty, `.`, `..` or `.git`, also as some file systems spell it."""
_SHALL = re.compile(r"\bshall\b", re.IGNORECASE)


def find_faults(phase: PhaseName, output: Json, earlier: Mapping[str, Json], exists: Exists) -> list[Finding]:
    """Why `output` does not pass as the result of `phase`, given those of the phases before it; empty when it does.

    At most MAX_FINDINGS. `sync` is not handed in, so nothing is wrong with it.
    """
    if _json_bytes(output) > MAX_OUTPUT_BYTES:
        message = f"The output has more than {MAX_OUTPUT_BYTES:,} bytes as JSON. Say it in fewer words."
        return [_finding("too_large", message, "")]
    match phase:
        case PhaseName.EXPLORE:
            faults = _explore(output, exists)
        case PhaseName.REQUIREMENTS:
            faults = _requirements(output)
        case PhaseName.DESIGN:
            faults = _design(output, earlier, exists)
        case PhaseName.TASKS:
            faults = _tasks(output, earlier, exists)
        case PhaseName.SYNC:
            faults = iter(())
    return list(islice(faults, MAX_FINDINGS))


def find_faults_of_all(outputs: Mapping[str, Json], exists: Exists) -> dict[PhaseName, list[Finding]]:
    """The same for all outputs there are, in order, each with what stands before it: for a plan that was revised.

    Only phases with faults are in the answer.
    """
    found: dict[PhaseName, list[Finding]] = {}
    earlier: dict[str, Json] = {}
    for phase in AGENT_PHASES:
        if phase not in outputs:
            continue
        if faults := find_faults(phase, outputs[phase], earlier, exists):
            found[phase] = faults
        earlier[phase] = outputs[phase]
    return found


def _explore(output: Json, exists: Exists) -> Iterator[Finding]:
    questions = _items(output, "open_questions")
    yield from _id_faults(questions, "open_questions", "Q", "Q1, Q2, …")
    for field in ("key_files", "related_code"):
        for index, item in enumerate(_items(output, field)):
            path = _text(item, "path")
            where = f"{field}[{index}].path"
            # A directory may be named with the slash at its end.
            if fault := _path_fault(path.removesuffix("/"), where):
                yield fault
            elif not exists(path.removesuffix("/")):
                yield _missing(path, where, "Name a file or directory that exists, or leave it out.")


def _requirements(output: Json) -> Iterator[Finding]:
    requirements = _items(output, "requirements")
    if not requirements:
        message = "There is no requirement. State at least one that the issue asks for."
        yield _finding("empty_plan", message, "requirements")
    yield from _id_faults(requirements, "requirements", "R", "R1, R2, …")
    for index, requirement in enumerate(requirements):
        where = f"requirements[{index}]"
        key = _text(requirement, "id")
        if not _SHALL.search(_text(requirement, "statement")):
            message = f"Write {_quote(key)} in EARS form: WHEN/WHILE/IF/WHERE …, THE … SHALL …"
            yield _finding("not_ears", message, f"{where}.statement")
        criteria = _items(requirement, "criteria")
        if not criteria:
            message = f"Give {_quote(key)} at least one acceptance criterion that a test can decide."
            yield _finding("criteria_missing", message, f"{where}.criteria")
        yield from _id_faults(
            criteria, f"{where}.criteria", f"{key}.", f"{_quote(f'{key}.1')}, {_quote(f'{key}.2')}, …"
        )


def _design(output: Json, earlier: Mapping[str, Json], exists: Exists) -> Iterator[Finding]:
    requirements, _ = _known(earlier)
    created: set[str] = set()
    for index, component in enumerate(_items(output, "components")):
        where = f"components[{index}]"
        yield from _unknown(component, "requirements", requirements, "requirement", where)
        yield from _file_faults(component, where, created, exists)


def _tasks(output: Json, earlier: Mapping[str, Json], exists: Exists) -> Iterator[Finding]:
    tasks = _items(output, "tasks")
    if not tasks:
        message = "There is no task. Plan at least one."
        yield _finding("empty_plan", message, "tasks")
        return
    if len(tasks) > MAX_TASKS:
        message = f"{len(tasks)} tasks are too many: at most {MAX_TASKS}. Put together what belongs together."
        yield _finding("too_many_tasks", message, "tasks")
        return
    yield from _id_faults(tasks, "tasks", "T", "T1, T2, …")
    yield from _size_faults(tasks)
    yield from _graph_faults(tasks)
    requirements, criteria = _known(earlier)
    for index, task in enumerate(tasks):
        yield from _unknown(task, "requirements", requirements, "requirement", f"tasks[{index}]")
        yield from _unknown(task, "criteria", criteria, "criterion", f"tasks[{index}]")
    yield from _uncovered(tasks, requirements, criteria)
    yield from _files_of_tasks(tasks, exists)


def _size_faults(tasks: list[Json]) -> Iterator[Finding]:
    for index, task in enumerate(tasks):
        hours = task.get("estimate_hours")
        if not isinstance(hours, int | float) or hours <= MAX_TASK_HOURS:
            continue
        what = (
            "One task for everything is too big"
            if len(tasks) == 1
            else f"{_quote(_text(task, 'id'))} is too big"
        )
        message = (
            f"{what}: at most {MAX_TASK_HOURS:g} hours each. Split it into tasks that depend on one another."
        )
        yield _finding("too_big_task", message, f"tasks[{index}].estimate_hours")


def _graph_faults(tasks: list[Json]) -> Iterator[Finding]:
    known = {_text(task, "id") for task in tasks}
    for index, task in enumerate(tasks):
        where = f"tasks[{index}]"
        yield from _unknown(task, "depends_on", known, "task", where)
        if _text(task, "id") in _texts(task, "depends_on"):
            message = f"{_quote(_text(task, 'id'))} can't depend on itself. Take it out of its depends_on."
            yield _finding("self_dependency", message, f"{where}.depends_on")
    for cycle in find_cycles(dependencies(tasks)):
        shown = " → ".join(_quote(key) for key in (*cycle[:20], "…")[: len(cycle) + (len(cycle) > 20)])
        message = f"These tasks wait for one another: {shown} → {_quote(cycle[0])}. Take one of the dependencies out."
        yield _finding("cycle", message, "tasks")


def dependencies(tasks: Iterable[Json]) -> dict[str, list[str]]:
    """The graph of a tasks phase: task id to the ids it depends on, itself left out."""
    return {
        _text(task, "id"): [need for need in _texts(task, "depends_on") if need != _text(task, "id")]
        for task in tasks
    }


def _uncovered(tasks: list[Json], requirements: set[str], criteria: set[str]) -> Iterator[Finding]:
    served = {key for task in tasks for key in _texts(task, "criteria")}
    # A task that fulfils R1.2 serves R1, whether or not it says so.
    meant = {key for task in tasks for key in _texts(task, "requirements")} | {
        key.rpartition(".")[0] for key in served
    }
    for kind, field, left in (
        ("Requirement", "requirements", requirements - meant),
        ("Criterion", "criteria", criteria - served),
    ):
        for key in sorted(left):
            message = f"{kind} {_quote(key)} has no task. Add one, or name it in the {field} of the task that does it."
            yield _finding("uncovered", message, "tasks")


def _files_of_tasks(tasks: list[Json], exists: Exists) -> Iterator[Finding]:
    order = {key: place for place, key in enumerate(stable_order(dependencies(tasks)))}
    # In the order they will be done; what is in a cycle has its own finding and comes last.
    places = sorted(range(len(tasks)), key=lambda index: order.get(_text(tasks[index], "id"), len(tasks)))
    created: set[str] = set()
    for index in places:
        yield from _file_faults(tasks[index], f"tasks[{index}]", created, exists)


def _file_faults(item: Json, where: str, created: set[str], exists: Exists) -> Iterator[Finding]:
    """Of one component or task; adds to `created` what it creates, for those that come after it."""
    for index, file in enumerate(_items(item, "files")):
        path = _text(file, "path")
        here = f"{where}.files[{index}].path"
        if fault := _path_fault(path, here):
            yield fault
        elif _text(file, "change") == "create":
            created.add(path)
        elif path not in created and not exists(path):
            yield _missing(
                path, here, "Look for the right path, or mark a new file as create where it is made first."
            )


def _missing(path: str, where: str, advice: str) -> Finding:
    message = f"There is no {_quote(path)} in the repository. {advice}"
    return _finding("missing_file", message, where)


def _path_fault(path: str, where: str) -> Finding | None:
    if not _BAD_NAME.search(path) and "\\" not in path and path.isprintable():
        return None
    message = (
        f"{_quote(path)} is not a path in the repository. Name a file relative to its root, with forward slashes, "
        "without '.', '..' or '.git'."
    )
    return _finding("missing_file", message, where)


def _id_faults(items: list[Json], where: str, prefix: str, form: str) -> Iterator[Finding]:
    """Each id is `prefix` and a number, and none is there twice."""
    ids = [_text(item, "id") for item in items]
    for index, key in enumerate(ids):
        if not (key.startswith(prefix) and re.fullmatch(r"[1-9][0-9]{0,3}", key[len(prefix) :])):
            message = f"{_quote(key)} is not an id of the form {form}. Number them anew and mend what refers to them."
            yield _finding("id_form", message, f"{where}[{index}].id")
    for key, count in Counter(ids).items():
        if count > 1:
            message = (
                f"{_quote(key)} is the id of {count} items. Give each its own and mend what refers to them."
            )
            yield _finding("unique_ids", message, where)


def _unknown(item: Json, field: str, known: set[str], kind: str, where: str) -> Iterator[Finding]:
    for index, key in enumerate(_texts(item, field)):
        if key not in known:
            message = f"There is no {kind} {_quote(key)}. Name one that exists, or leave it out."
            yield _finding("unknown_reference", message, f"{where}.{field}[{index}]")


def _known(earlier: Mapping[str, Json]) -> tuple[set[str], set[str]]:
    """Ids of the requirements, and of their criteria."""
    requirements = _items(earlier.get(PhaseName.REQUIREMENTS, {}), "requirements")
    criteria = {
        _text(criterion, "id")
        for requirement in requirements
        for criterion in _items(requirement, "criteria")
    }
    return {_text(requirement, "id") for requirement in requirements}, criteria


def _finding(rule: str, message: str, where: str) -> Finding:
    # Quoting can make a text ten times as long.
    return Finding(rule=rule, message=message[:MAX_MESSAGE], where=where)


def _items(holder: Any, field: str) -> list[Json]:
    value = holder.get(field) if isinstance(holder, Mapping) else None
    # What is no object keeps its place, so that positions in findings are those of the output.
    return [item if isinstance(item, Mapping) else {} for item in value] if isinstance(value, list) else []


def _text(item: Json, field: str) -> str:
    value = item.get(field)
    return value if isinstance(value, str) else ""


def _texts(item: Json, field: str) -> list[str]:
    value = item.get(field)
    return [text if isinstance(text, str) else "" for text in value] if isinstance(value, list) else []


def _quote(text: str) -> str:
    """Short, on one line, and with everything unprintable escaped."""
    return repr(text if len(text) <= 80 else text[:79] + "…")


def _json_bytes(output: Json) -> int:
    try:
        return len(
            json.dumps(output, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        )
    except RecursionError:
        return MAX_OUTPUT_BYTES + 1
