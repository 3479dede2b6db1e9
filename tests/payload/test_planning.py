"""Planning inside the sandbox: phases in order, refusals, attempts, the end."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from simulators.model.planned import DESIGN, EXPLORE, REQUIREMENTS, TASKS
from tests.payload.app_stub import AppStub
from tests.payload.conftest import SandboxMaker
from tests.payload.plans import PHASES, gate_of, open_gate, planning_brief, scenario, submitted, waits_at
from tests.payload.sandbox import eventually
from tests.payload.steps import bash, say, write
from tests.payload.test_ends import cli_of

OUTPUTS = dict(zip(PHASES, (EXPLORE, REQUIREMENTS, DESIGN, TASKS), strict=True))


def spec_events(app: AppStub) -> list[tuple[str, str]]:
    """(what, phase) of every `spec.…` event, in order."""
    events = [event for _, event in sorted(app.events.items()) if event["event_type"].startswith("spec.")]
    return [(event["event_type"].removeprefix("spec."), event["event_data"]["phase"]) for event in events]


def rules(events: list[dict[str, Any]]) -> list[list[str]]:
    return [[finding["rule"] for finding in event["findings"]] for event in events]


def test_when_a_plan_is_made_then_each_phase_is_reported_whole_and_nothing_of_the_work_tree_leaves(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    script = scenario(
        "planned", explore=[[write("junk.txt", "tried\n"), submitted("explore", EXPLORE), say("Done.")]]
    )
    one = sandbox(script, brief=planning_brief(setup_command="true", test_command="false"))
    assert one.run() == 0, one.output()
    assert spec_events(app) == [
        (what, phase) for phase in PHASES for what in ("phase_started", "phase_completed")
    ]
    completed = app.of("spec.phase_completed")
    assert {event["phase"]: event["output"] for event in completed} == OUTPUTS
    assert all((e["version"], e["attempts"], e["revision"]) == (1, 1, 1) for e in completed)
    assert all(0 < e["seconds"] < 30 for e in completed)
    assert [event["attempt"] for event in app.of("spec.phase_started")] == [1, 1, 1, 1]
    manifest = app.manifest
    assert (manifest["status"], manifest["round"], manifest["bundle_sha256"]) == ("completed", 1, None)
    assert manifest["head_sha"] == one.start_sha
    assert manifest["test"] is None
    assert set(app.artifacts) == {"transcript.tar.gz", "manifest.json"}
    assert [name for name, _ in app.uploads].count("transcript.tar.gz") >= 4
    assert app.types()[-1] == "agent.shutdown"


@pytest.mark.parametrize(
    ("name", "attempts", "refusals"),
    [
        ("plan_prose", {"explore": 2}, [["not_handed_in"]]),
        ("plan_bad_json", {"explore": 3}, [["schema"], ["schema"]]),
        ("plan_cycle", {"tasks": 2}, [["cycle"]]),
        ("plan_missing_file", {"explore": 2}, [["missing_file"]]),
        ("plan_one_task", {"tasks": 2}, [["too_big_task"]]),
        ("plan_empty", {"requirements": 2, "tasks": 2}, [["empty_plan"], ["empty_plan"]]),
    ],
)
def test_when_an_output_is_refused_then_the_reasons_go_back_and_the_attempt_is_counted(
    app: AppStub, sandbox: SandboxMaker, name: str, attempts: dict[str, int], refusals: list[list[str]]
) -> None:
    one = sandbox(scenario(name), brief=planning_brief())
    assert one.run() == 0, (one.output(), app.manifest)
    retries = app.of("spec.phase_retry")
    assert [sorted(set(found)) for found in rules(retries)] == refusals
    assert all(finding["message"] for event in retries for finding in event["findings"])
    completed = {event["phase"]: event for event in app.of("spec.phase_completed")}
    assert {phase: event["attempts"] for phase, event in completed.items()} == dict.fromkeys(
        PHASES, 1
    ) | attempts
    assert {phase: event["output"] for phase, event in completed.items()} == OUTPUTS


@pytest.mark.parametrize(
    ("name", "phase", "rule"),
    [("plan_never", "explore", "not_handed_in"), ("plan_huge", "tasks", "too_many_tasks")],
)
def test_when_the_third_attempt_fails_then_the_phase_has_failed_and_says_why(
    app: AppStub, sandbox: SandboxMaker, name: str, phase: str, rule: str
) -> None:
    one = sandbox(scenario(name), brief=planning_brief(idle_s=60))
    assert one.run() == 10, one.output()
    assert [event["attempt"] for event in app.of("spec.phase_retry")] == [1, 2]
    failed = app.of("spec.phase_failed")
    assert [(event["phase"], event["attempts"]) for event in failed] == [(phase, 3)]
    assert rules(failed) == [[rule]]
    manifest = app.manifest
    assert (manifest["status"], manifest["reason"]) == ("failed", "phase_failed")
    assert phase in manifest["detail"]
    assert failed[0]["findings"][0]["message"] in manifest["detail"]
    assert "agent.completed" not in app.types()


def test_when_a_later_phase_comes_first_then_it_is_put_off_without_costing_an_attempt(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    early = [submitted("requirements", REQUIREMENTS)] * 3
    script = scenario("planned", explore=[[*early, submitted("explore", EXPLORE), say("Done.")]])
    one = sandbox(script, brief=planning_brief())
    assert one.run() == 0, one.output()
    assert app.of("spec.phase_retry") == []
    assert [(event["phase"], event["attempts"]) for event in app.of("spec.phase_completed")] == [
        (phase, 1) for phase in PHASES
    ]


def test_when_the_next_phase_is_handed_in_unasked_then_it_counts_and_is_not_asked_for(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    both = [submitted("explore", EXPLORE), submitted("requirements", REQUIREMENTS), say("Both.")]
    one = sandbox(scenario("planned", explore=[both], requirements=[[say("never")]]), brief=planning_brief())
    assert one.run() == 0, one.output()
    assert [event["phase"] for event in app.of("spec.phase_started")] == PHASES
    assert [event["phase"] for event in app.of("spec.phase_completed")] == PHASES


def test_when_a_person_speaks_during_a_phase_then_the_answer_costs_no_attempt(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    held = scenario("plan_hold")
    gate = gate_of(held, "explore")
    turns = [
        [bash("ls"), {**say("I am looking."), "gate": gate}],
        [say("Yes, I read it.")],
        [submitted("explore", EXPLORE), say("In.")],
    ]
    one = sandbox(scenario("planned", explore=turns), brief=planning_brief()).start()
    eventually(lambda: waits_at(one, gate), 20)
    message_id = app.send("Did you read the README?")
    app.wait(lambda: app.polled_after == 1)
    open_gate(one, gate)
    assert one.wait() == 0, one.output()
    assert app.acknowledged == [message_id]
    assert app.of("spec.phase_retry") == []
    assert [event["attempts"] for event in app.of("spec.phase_completed")] == [1, 1, 1, 1]


def test_when_the_agents_process_is_killed_during_a_phase_then_that_is_the_reason(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    script = scenario("plan_hold")
    one = sandbox(script, brief=planning_brief()).start()
    assert one.process is not None
    open_gate(one, gate_of(script, "explore"))
    eventually(lambda: waits_at(one, gate_of(script, "requirements")), 20)
    os.kill(cli_of(one.process.pid), signal.SIGKILL)
    assert one.wait() == 10
    assert app.manifest["reason"] == "cli_killed"
    assert app.of("spec.phase_failed") == []
    assert [event["phase"] for event in app.of("spec.phase_completed")] == ["explore"]
