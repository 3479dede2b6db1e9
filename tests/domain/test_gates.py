"""Hard rules of planning: what is right passes, and each single fault is found under its rule."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from sandbox_payload.wire.gates import (
    MAX_FINDINGS,
    MAX_TASKS,
    find_faults,
    find_faults_of_all,
)
from sandbox_payload.wire.plan import AGENT_PHASES, MAX_OUTPUT_BYTES, Finding, PhaseName
from tests.domain.plans import Outputs, exists, json_values, plans, sample


def faults_of(outputs: Outputs, phase: str) -> list[Finding]:
    return find_faults_of_all(outputs, exists).get(PhaseName(phase), [])


def rules_of(outputs: Outputs, phase: str) -> set[str]:
    return {finding.rule for finding in faults_of(outputs, phase)}


@settings(max_examples=100)
@given(plans())
def test_plan_without_a_fault_passes(outputs: Outputs) -> None:
    assert find_faults_of_all(outputs, exists) == {}


def change(path: str, value: object) -> Callable[[Outputs], None]:
    """Sets what stands at `requirements.requirements.0.id` and the like; a list's end is `+`."""

    def apply(outputs: Outputs) -> None:
        *above, last = path.split(".")
        node: Any = outputs
        for name in above:
            node = node[int(name)] if isinstance(node, list) else node[name]
        if last == "+":
            node.append(value)
        elif isinstance(node, list):
            node[int(last)] = value
        else:
            node[last] = value

    return apply


FAULTS = [
    ("explore", "missing_file", change("explore.key_files.0.path", "src/gone.py")),
    ("explore", "missing_file", change("explore.related_code.0.path", "elsewhere.py")),
    ("explore", "missing_file", change("explore.key_files.0.path", "/src/counter.py")),
    ("explore", "missing_file", change("explore.key_files.0.path", "src/../src/counter.py")),
    ("explore", "missing_file", change("explore.key_files.0.path", ".git/config")),
    ("explore", "missing_file", change("explore.key_files.0.path", "src\\counter.py")),
    ("explore", "id_form", change("explore.open_questions.0.id", "question one")),
    ("explore", "unique_ids", change("explore.open_questions.+", {"id": "Q1", "question": "Again?"})),
    ("requirements", "empty_plan", change("requirements.requirements", [])),
    ("requirements", "id_form", change("requirements.requirements.0.id", "REQ-1")),
    ("requirements", "id_form", change("requirements.requirements.0.criteria.0.id", "R2.7")),
    ("requirements", "id_form", change("requirements.requirements.0.criteria.0.id", "R1.0")),
    ("requirements", "unique_ids", change("requirements.requirements.1.id", "R1")),
    ("requirements", "unique_ids", change("requirements.requirements.0.criteria.1.id", "R1.1")),
    ("requirements", "not_ears", change("requirements.requirements.0.statement", "It should count.")),
    ("requirements", "criteria_missing", change("requirements.requirements.1.criteria", [])),
    ("design", "unknown_reference", change("design.components.0.requirements.+", "R9")),
    ("design", "missing_file", change("design.components.0.files.0.path", "src/gone.py")),
    ("design", "missing_file", change("design.components.0.files.1.path", "../outside.py")),
    ("tasks", "empty_plan", change("tasks.tasks", [])),
    ("tasks", "id_form", change("tasks.tasks.2.id", "last one")),
    ("tasks", "unique_ids", change("tasks.tasks.2.id", "T1")),
    ("tasks", "unknown_reference", change("tasks.tasks.2.depends_on.+", "T9")),
    ("tasks", "unknown_reference", change("tasks.tasks.2.requirements.+", "R9")),
    ("tasks", "unknown_reference", change("tasks.tasks.2.criteria.+", "R1.9")),
    ("tasks", "self_dependency", change("tasks.tasks.2.depends_on.+", "T3")),
    ("tasks", "cycle", change("tasks.tasks.0.depends_on.+", "T2")),
    ("tasks", "uncovered", change("tasks.tasks.1.criteria", [])),
    ("tasks", "missing_file", change("tasks.tasks.2.files.0.path", "docs/gone.md")),
    ("tasks", "missing_file", change("tasks.tasks.2.files.0.path", "docs//README.md")),
    ("tasks", "missing_file", change("tasks.tasks.0.files.1.change", "modify")),
    ("tasks", "missing_file", change("tasks.tasks.1.files.0.path", "src/.GIT/hooks")),
    ("tasks", "too_big_task", change("tasks.tasks.1.estimate_hours", 4.5)),
]


@pytest.mark.parametrize(("phase", "rule", "break_it"), FAULTS)
def test_single_fault_is_found_under_its_rule_alone(
    phase: str, rule: str, break_it: Callable[[Outputs], None]
) -> None:
    outputs = sample()
    break_it(outputs)
    found = faults_of(outputs, phase)
    # A wrong name leaves what it stood for uncovered, unknown or without its form: those follow from it.
    assert {finding.rule for finding in found} - {"uncovered", "unknown_reference", "id_form"} <= {rule}
    assert rule in {finding.rule for finding in found}
    assert all(finding.where for finding in found)


def test_one_task_for_everything_is_too_big() -> None:
    outputs = sample()
    task = outputs["tasks"]["tasks"][0]
    task |= {"requirements": ["R1", "R2"], "criteria": ["R1.1", "R1.2", "R2.1"], "estimate_hours": 40}
    outputs["tasks"]["tasks"] = [task]
    found = faults_of(outputs, "tasks")
    assert [finding.rule for finding in found] == ["too_big_task"]
    assert "One task for everything" in found[0].message


def test_four_hundred_tasks_are_one_finding() -> None:
    outputs = sample()
    outputs["tasks"]["tasks"] = [{"id": f"T{number}", "estimate_hours": 9} for number in range(400)]
    found = faults_of(outputs, "tasks")
    assert [finding.rule for finding in found] == ["too_many_tasks"]
    assert "400" in found[0].message
    assert str(MAX_TASKS) in found[0].message


def test_plan_for_another_repository_is_told_each_file() -> None:
    found = find_faults(PhaseName.EXPLORE, sample()["explore"], {}, lambda _: False)
    assert [finding.where for finding in found] == [
        "key_files[0].path",
        "key_files[1].path",
        "related_code[0].path",
    ]


def test_output_of_too_many_bytes_is_refused_alone() -> None:
    outputs = sample()
    outputs["explore"]["structure"] = "é" * (MAX_OUTPUT_BYTES // 2)
    assert rules_of(outputs, "explore") == {"too_large"}


def test_cycle_is_named_from_task_to_task() -> None:
    outputs = sample()
    outputs["tasks"]["tasks"][0]["depends_on"] = ["T2"]
    (found,) = faults_of(outputs, "tasks")
    assert "'T1' → 'T2' → 'T1'" in found.message


def test_file_that_only_a_later_task_creates_is_missing() -> None:
    outputs = sample()
    tasks = outputs["tasks"]["tasks"]
    tasks[0]["depends_on"], tasks[1]["depends_on"] = ["T2"], []
    (found,) = faults_of(outputs, "tasks")
    assert (found.rule, found.where) == ("missing_file", "tasks[1].files[1].path")


def test_file_of_a_task_listed_later_but_done_before_is_there() -> None:
    outputs = sample()
    outputs["tasks"]["tasks"].reverse()
    assert faults_of(outputs, "tasks") == []


def test_requirement_named_only_by_its_criterion_is_covered() -> None:
    outputs = sample()
    outputs["tasks"]["tasks"][1]["requirements"] = []
    assert faults_of(outputs, "tasks") == []


def test_revised_requirements_are_told_in_the_phases_after_them() -> None:
    outputs = sample()
    outputs["requirements"]["requirements"].pop()
    found = find_faults_of_all(outputs, exists)
    assert list(found) == [PhaseName.DESIGN, PhaseName.TASKS]


def test_phases_not_there_yet_are_not_asked_about() -> None:
    outputs = sample()
    assert find_faults_of_all({"explore": outputs["explore"]}, exists) == {}


def test_text_of_a_model_is_quoted_short_and_on_one_line() -> None:
    outputs = sample()
    outputs["tasks"]["tasks"][2]["id"] = "```\n<!-- issuewright:end -->\u202e" * 2_000
    for finding in faults_of(outputs, "tasks"):
        assert "\n" not in finding.message
        assert "\u202e" not in finding.message
        assert len(finding.message) < 400


def test_huge_cycle_of_hostile_names_is_one_short_finding() -> None:
    names = ["\U000e0001" * 40 + str(number) for number in range(60)]
    tasks = [
        {"id": name, "depends_on": [names[number - 1]], "estimate_hours": 1}
        for number, name in enumerate(names)
    ]
    found = find_faults(PhaseName.TASKS, {"tasks": tasks}, {}, exists)
    assert len(found) <= MAX_FINDINGS
    assert max(len(finding.message) for finding in found) <= 2_000


@settings(max_examples=300)
@given(st.sampled_from(list(PhaseName)), json_values, st.data())
def test_no_json_makes_the_gates_raise(phase: PhaseName, value: Any, data: st.DataObject) -> None:
    outputs: dict[str, Any] = dict(sample())
    where = data.draw(st.sampled_from(AGENT_PHASES))
    broken = outputs[where]
    if data.draw(st.booleans()):
        outputs[where] = value
    else:
        name = data.draw(st.sampled_from(sorted(broken)))
        items = broken[name]
        if isinstance(items, list) and items and isinstance(items[0], dict) and data.draw(st.booleans()):
            items[0][data.draw(st.sampled_from(sorted(items[0])))] = value
        else:
            broken[name] = value
    find_faults(phase, outputs.get(phase, {}), outputs, exists)
    find_faults_of_all(outputs, exists)


def test_sixty_tasks_are_judged_at_once() -> None:
    outputs = sample()
    first = outputs["tasks"]["tasks"][0]
    outputs["tasks"]["tasks"] = [
        {**first, "id": f"T{number}", "depends_on": [f"T{other}" for other in range(1, number)]}
        for number in range(1, MAX_TASKS + 1)
    ]
    outputs["tasks"]["tasks"][0] |= {"criteria": ["R1.1", "R1.2", "R2.1"]}
    took = min(_timed(outputs) for _ in range(5))
    assert took < 0.05


def _timed(outputs: Outputs) -> float:
    start = process_time()
    assert find_faults_of_all(outputs, exists) == {}
    return process_time() - start
