"""The quality score lies between 0 and 1 for every output that passes, and each check follows what it is named for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings

from app.domain.quality import CHECKS, score_output
from app.domain.spec import normalize_output
from sandbox_payload.wire.plan import AGENT_PHASES, PhaseName
from tests.domain.plans import Outputs, plans, sample
from tests.domain.test_gates import change


@settings(max_examples=60)
@given(plans())
def test_every_output_that_passes_has_a_score(outputs: Outputs) -> None:
    for phase in AGENT_PHASES:
        score = score_output(phase, normalize_output(phase, outputs[phase]), outputs)
        assert 0 <= score.value <= 1
        assert set(score.checks) == set(CHECKS[phase])
        assert all(0 <= points <= 1 for points in score.checks.values())


def test_good_plan_scores_high_in_every_phase() -> None:
    outputs = sample()
    assert all(score_output(phase, outputs[phase], outputs).value > 0.7 for phase in AGENT_PHASES)


def test_sync_is_code_and_has_nothing_to_score() -> None:
    assert score_output(PhaseName.SYNC, {}, {}).value == 1.0


WORSE = [
    ("explore", "tests_tried", change("explore.test.worked", None)),
    ("explore", "setup_tried", change("explore.setup.worked", None)),
    ("explore", "key_files", change("explore.key_files", [])),
    ("explore", "conventions_named", change("explore.conventions.style", "none")),
    ("explore", "scope_drawn", change("explore.scope_out", [])),
    ("explore", "versions_stated", change("explore.languages.0.version", None)),
    ("requirements", "criteria_per_requirement", change("requirements.requirements.0.criteria", [])),
    (
        "requirements",
        "criteria_concrete",
        change("requirements.requirements.1.criteria.0.text", "It works well"),
    ),
    ("requirements", "ears_forms", change("requirements.requirements.0.statement", "Shall count.")),
    (
        "requirements",
        "failures_thought_of",
        change("requirements.requirements.1.statement", "THE x SHALL y."),
    ),
    ("requirements", "assumptions_stated", change("requirements.assumptions", [])),
    ("design", "requirements_designed", change("design.components.0.requirements", ["R1"])),
    ("design", "files_named", change("design.components.0.files", [])),
    ("design", "tests_planned", change("design.test_strategy", "None.")),
    ("design", "alternatives_weighed", change("design.alternatives", [])),
    ("tasks", "sized_well", change("tasks.tasks.0.estimate_hours", 0.1)),
    ("tasks", "described", change("tasks.tasks.0.description", "Do it.")),
    ("tasks", "covered_once", change("tasks.tasks.2.criteria", ["R1.1"])),
    ("tasks", "parallelism", change("tasks.tasks.2.depends_on", ["T2"])),
]


@pytest.mark.parametrize(("phase", "check", "worsen"), WORSE)
def test_what_is_worse_scores_lower(phase: str, check: str, worsen: Callable[[Outputs], None]) -> None:
    name, outputs = PhaseName(phase), sample()
    before = score_output(name, outputs[phase], outputs)
    worsen(outputs)
    after = score_output(name, outputs[phase], outputs)
    assert after.checks[check] < before.checks[check]
    assert after.value < before.value


def test_plan_without_any_test_is_seen() -> None:
    outputs = sample()
    for task in outputs["tasks"]["tasks"]:
        task["files"] = [file for file in task["files"] if "test" not in file["path"]]
    assert score_output(PhaseName.TASKS, outputs["tasks"], outputs).checks["tests_present"] == 0
