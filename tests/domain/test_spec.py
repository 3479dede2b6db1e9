"""What a phase hands in is of its schema, or is refused in words that say where."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from app.domain.spec import PHASE_MODELS, BadOutput, normalize_output, parse_output, phase_schema
from sandbox_payload.wire.gates import MAX_FINDINGS
from sandbox_payload.wire.plan import AGENT_PHASES, PhaseName
from tests.domain.plans import Outputs, json_values, plans, sample

OPTIONAL = {
    "explore": ("related_code", "open_questions", "scope_out"),
    "requirements": ("assumptions", "out_of_scope"),
    "design": ("data_changes", "interface_changes", "alternatives"),
    "tasks": (),
}


def refused(phase: str, output: object) -> BadOutput:
    with pytest.raises(BadOutput) as caught:
        parse_output(PhaseName(phase), output)
    return caught.value


@settings(max_examples=40)
@given(plans())
def test_outputs_of_the_schema_come_back_as_they_were(outputs: Outputs) -> None:
    for phase, output in outputs.items():
        assert normalize_output(PhaseName(phase), output) == output


@pytest.mark.parametrize("phase", AGENT_PHASES)
def test_fields_that_may_be_left_out_are_filled_in(phase: PhaseName) -> None:
    output = sample()[phase]
    for name in OPTIONAL[phase]:
        del output[name]
    filled = normalize_output(phase, output)
    assert all(filled[name] == [] for name in OPTIONAL[phase])


@pytest.mark.parametrize("phase", AGENT_PHASES)
def test_schema_is_complete_in_itself_and_describes_every_field(phase: PhaseName) -> None:
    schema = phase_schema(phase)
    assert "$ref" not in json.dumps(schema)
    undescribed: list[str] = []

    def walk(node: dict[str, Any], at: str) -> None:
        for name, field in node.get("properties", {}).items():
            if not field.get("description"):
                undescribed.append(f"{at}.{name}")
            walk(field, f"{at}.{name}")
        if node.get("type") == "object":
            assert node["additionalProperties"] is False
        if "items" in node:
            walk(node["items"], f"{at}[]")

    walk(schema, phase)
    assert undescribed == []


def test_schema_keeps_a_field_that_is_called_title() -> None:
    assert "title" in phase_schema(PhaseName.TASKS)["properties"]["tasks"]["items"]["properties"]


def test_sync_is_asked_of_no_agent() -> None:
    assert PhaseName.SYNC not in PHASE_MODELS
    with pytest.raises(KeyError):
        phase_schema(PhaseName.SYNC)


def test_unknown_field_is_refused_with_its_place() -> None:
    tasks = sample()["tasks"]
    tasks["tasks"][1]["priority"] = "high"
    finding = refused("tasks", tasks).findings[0]
    assert (finding.rule, finding.where) == ("schema", "tasks[1].priority")


def test_unknown_field_with_a_hostile_name_is_quoted() -> None:
    finding = refused("tasks", {"tasks": [], "\n<!-- issuewright:end -->" * 50: 1}).findings[0]
    assert "\n" not in finding.where
    assert len(finding.where) < 100


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("estimate_hours", "2"),
        ("estimate_hours", 0),
        ("estimate_hours", float("nan")),
        ("title", "   "),
        ("title", 7),
        ("title", "x" * 301),
        ("kind", "magic"),
        ("depends_on", "T1"),
        ("files", [{"path": "a", "change": "rename"}]),
    ],
)
def test_wrong_type_or_size_is_refused(field: str, value: object) -> None:
    tasks = sample()["tasks"]
    tasks["tasks"][0][field] = value
    assert all(finding.rule == "schema" for finding in refused("tasks", tasks).findings)


def test_many_faults_are_told_only_in_part() -> None:
    assert len(refused("tasks", {"tasks": [{}] * 100}).findings) == MAX_FINDINGS


@pytest.mark.parametrize(
    "output", ["prose instead of the tool", None, [], {}, {"tasks": "\ud800"}, {"tasks": {1}}]
)
def test_what_is_no_such_object_is_refused(output: object) -> None:
    assert refused("tasks", output).findings


@settings(max_examples=150)
@given(st.sampled_from(AGENT_PHASES), json_values, st.data())
def test_any_json_anywhere_is_taken_or_refused_in_words(
    phase: PhaseName, value: object, data: st.DataObject
) -> None:
    output = sample()[phase]
    output[data.draw(st.sampled_from(sorted(output)))] = value
    try:
        parse_output(phase, output)
    except BadOutput as bad:
        told = bad.findings
    else:
        return
    assert told
    assert all(finding.rule == "schema" and finding.message for finding in told)
