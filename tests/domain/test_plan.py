"""The plan as a graph: its order keeps every dependency, files are never worked on twice at once, its hash is stable."""

from __future__ import annotations

import json
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from app.domain.plan import PlannedTask, SyncReport, plan_hash, short_hash, sync_plan
from app.domain.spec import BadOutput
from sandbox_payload.wire.graph import find_cycles, stable_order
from tests.domain.plans import Outputs, exists, plans, sample, task_graphs

graphs = st.dictionaries(
    st.sampled_from([f"T{number}" for number in range(8)]),
    st.lists(st.sampled_from([f"T{number}" for number in range(9)]), unique=True, max_size=3),
    max_size=8,
)


def has_cycle(edges: dict[str, list[str]]) -> bool:
    """By taking away what waits for nothing, until nothing more can be taken."""
    left = dict(edges)
    while done := [key for key, needs in left.items() if not any(need in left for need in needs)]:
        for key in done:
            del left[key]
    return bool(left)


@given(task_graphs(20))
def test_order_has_every_task_once_after_what_it_needs(edges: dict[str, list[str]]) -> None:
    order = stable_order(edges)
    assert sorted(order) == sorted(edges)
    assert all(order.index(need) < order.index(key) for key, needs in edges.items() for need in needs)


@given(st.lists(st.integers(), unique=True, max_size=20))
def test_order_without_dependencies_is_that_of_the_list(numbers: list[int]) -> None:
    keys = [f"T{number}" for number in numbers]
    assert stable_order({key: [] for key in keys}) == keys


@given(task_graphs())
def test_of_tasks_that_may_come_next_the_first_of_the_list_comes(edges: dict[str, list[str]]) -> None:
    done: set[str] = set()
    for key in stable_order(edges):
        free = [other for other in edges if other not in done and done.issuperset(edges[other])]
        assert key == free[0]
        done.add(key)


@given(graphs)
def test_cycles_are_found_exactly_when_there_are_any(edges: dict[str, list[str]]) -> None:
    cycles = find_cycles(edges)
    assert bool(cycles) == has_cycle(edges)
    for cycle in cycles:
        assert all(need in edges[key] for key, need in zip(cycle, [*cycle[1:], cycle[0]], strict=True))
    named = [key for cycle in cycles for key in cycle]
    assert len(named) == len(set(named))


@settings(max_examples=100)
@given(plans())
def test_synced_plan_keeps_dependencies_and_separates_files(outputs: Outputs) -> None:
    report = sync_plan(outputs, exists)
    assert report.findings == ()
    planned = {item["id"]: item for item in outputs["tasks"]["tasks"]}
    assert sorted(report.order) == sorted(planned)
    before = ancestors(report)
    for task in report.tasks:
        assert set(planned[task.key]["depends_on"]) <= set(task.depends_on)
        assert before[task.key] <= set(report.order[: report.order.index(task.key)])
    # Every task of a generated plan touches README.md, so no two may run side by side.
    assert [len(level) for level in report.levels] == [1] * len(planned)
    for conflict in report.conflicts:
        assert conflict.first in before[conflict.second]
        assert "README.md" in conflict.paths
    assert all(report.coverage[item["id"]] for item in outputs["requirements"]["requirements"])
    assert json.loads(json.dumps(report.as_output())) == report.as_output()


def ancestors(report: SyncReport) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for task in report.tasks:
        found[task.key] = {*task.depends_on}.union(*(found[need] for need in task.depends_on))
    return found


def test_sample_is_covered_ordered_and_in_levels() -> None:
    report = sync_plan(sample(), exists)
    assert report.order == ("T1", "T2", "T3")
    assert report.levels == (("T1", "T3"), ("T2",))
    assert report.coverage == {"R1": ("T1", "T3"), "R2": ("T2",)}
    assert report.conflicts == ()


def test_tasks_that_name_one_file_wait_for_one_another() -> None:
    outputs = sample()
    outputs["tasks"]["tasks"][2]["files"] = [{"path": "SRC/Counter.py", "change": "create"}]
    report = sync_plan(outputs, exists)
    # T3 waits for T2, and by that for T1 as well: one dependency is enough, both conflicts are told.
    assert report.depends_on == {"T1": (), "T2": ("T1",), "T3": ("T2",)}
    assert [(found.first, found.second, found.paths) for found in report.conflicts] == [
        ("T1", "T3", ("SRC/Counter.py",)),
        ("T2", "T3", ("SRC/Counter.py",)),
    ]


def test_missing_phase_is_a_finding() -> None:
    outputs = sample()
    del outputs["design"]
    report = sync_plan(outputs, exists)
    assert [(finding.rule, finding.where) for finding in report.findings] == [("missing_phase", "design")]
    assert report.tasks == ()


def test_fault_is_told_with_the_phase_it_is_in() -> None:
    outputs = sample()
    outputs["tasks"]["tasks"][0]["depends_on"] = ["T2"]
    report = sync_plan(outputs, exists)
    assert [(finding.rule, finding.where) for finding in report.findings] == [("cycle", "tasks.tasks")]


def test_output_of_another_shape_is_a_finding_and_no_crash() -> None:
    outputs = sample()
    outputs["requirements"] = {"requirements": "none"}
    assert {finding.rule for finding in sync_plan(outputs, exists).findings} == {"schema"}


def reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return [reversed_keys(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=40)
@given(plans())
def test_hash_does_not_depend_on_the_order_of_keys(outputs: Outputs) -> None:
    assert plan_hash(reversed_keys(outputs)) == plan_hash(outputs)


def test_hash_does_not_depend_on_what_means_the_same() -> None:
    outputs = sample()
    before = plan_hash(outputs)
    outputs["tasks"]["tasks"][0]["estimate_hours"] = 2
    del outputs["design"]["data_changes"]
    del outputs["tasks"]["tasks"][0]["depends_on"]
    outputs["explore"]["structure"] = "Seen otherwise."
    assert plan_hash(outputs) == before


@pytest.mark.parametrize("phase", ["requirements", "design", "tasks"])
def test_hash_changes_with_any_text_people_see(phase: str) -> None:
    outputs = sample()
    before = plan_hash(outputs)
    field = {"requirements": "assumptions", "design": "interface_changes"}.get(phase)
    if field:
        outputs[phase][field].append("One more.")
    else:
        outputs["tasks"]["tasks"][0]["title"] += "!"
    assert plan_hash(outputs) != before
    assert len(before) == 64
    assert short_hash(before) == before[:8]


def test_hash_of_a_malformed_plan_is_refused() -> None:
    with pytest.raises(BadOutput):
        plan_hash({**sample(), "tasks": {}})


def test_sixty_tasks_are_ordered_in_no_time() -> None:
    keys = [f"T{number}" for number in range(1, 61)]
    tasks = tuple(
        PlannedTask(key, key, "", "test", depends_on=tuple(keys[max(0, place - 5) : place]))
        for place, key in enumerate(keys)
    )

    def once() -> float:
        start = process_time()
        stable_order({task.key: task.depends_on for task in tasks})
        return process_time() - start

    assert min(once() for _ in range(5)) < 0.01


def test_sync_of_sixty_tasks_stays_far_below_its_budget() -> None:
    outputs = sample()
    first = outputs["tasks"]["tasks"][0]
    outputs["tasks"]["tasks"] = [
        {
            **first,
            "id": f"T{number}",
            "files": [{"path": f"src/{number % 7}-{index}.py", "change": "create"} for index in range(8)],
            "criteria": ["R1.1", "R1.2", "R2.1"],
        }
        for number in range(1, 61)
    ]

    def once() -> float:
        start = process_time()
        assert sync_plan(outputs, exists).findings == ()
        plan_hash(outputs)
        return process_time() - start

    assert min(once() for _ in range(5)) < 0.05
