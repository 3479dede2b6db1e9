"""Planning that goes on: in a new sandbox, after a restart, after a person's message."""

from __future__ import annotations

import os
import signal
from copy import deepcopy
from typing import Any

from simulators.model.planned import EXPLORE, REQUIREMENTS, TASKS, task
from tests.payload.app_stub import AppStub
from tests.payload.conftest import SandboxMaker
from tests.payload.plans import (
    PHASES,
    chapters_asked,
    gate_of,
    last_request,
    open_gate,
    planning_brief,
    scenario,
    submitted,
    waits_at,
)
from tests.payload.sandbox import Sandbox, eventually
from tests.payload.steps import say

MORE_REQUIREMENTS = deepcopy(REQUIREMENTS)
MORE_REQUIREMENTS["requirements"].append(
    {
        "id": "R3",
        "statement": "THE library SHALL offer the function as a command.",
        "criteria": [{"id": "R3.1", "text": "the command prints 10 for 5 and 2"}],
    }
)
MORE_TASKS = {
    "tasks": [
        *TASKS["tasks"],
        task("T4", "Add a command", "implementation", "cli.py", criteria=["R3.1"], requirements=["R3"]),
    ]
}


def completed(app: AppStub) -> list[tuple[str, int]]:
    return [(event["phase"], event["revision"]) for event in app.of("spec.phase_completed")]


def kill_before_design(one: Sandbox, script: dict[str, Any]) -> None:
    """Kills the payload while the model is at its answer for the phase design."""
    assert one.process is not None
    for phase in ("explore", "requirements"):
        open_gate(one, gate_of(script, phase))
    eventually(lambda: waits_at(one, gate_of(script, "design")), 30)
    os.kill(one.process.pid, signal.SIGKILL)
    one.process.wait()
    eventually(lambda: not waits_at(one, gate_of(script, "design")), 20)
    for phase in ("design", "tasks"):
        open_gate(one, gate_of(script, phase))


def test_when_a_sandbox_dies_then_a_new_one_goes_on_with_its_session_at_the_first_open_phase(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    script = scenario("plan_hold")
    one = sandbox(script, brief=planning_brief()).start()
    kill_before_design(one, script)
    outputs = {event["phase"]: event["output"] for event in app.of("spec.phase_completed")}
    assert list(outputs) == ["explore", "requirements"]
    session = app.of("spec.phase_completed")[-1]["session_id"]
    asked = last_request(one)

    later_app = AppStub()
    later_app.start()
    later = sandbox(
        script,
        app=later_app,
        brief=planning_brief(outputs=outputs, phase="design", resume_session_id=session),
        transcript=app.artifacts["transcript.tar.gz"],
        prompt="Go on with the plan.",
    )
    later.scenario = one.scenario
    assert later.run() == 0, later.output()
    later_app.stop()
    assert later_app.of("agent.error") == []
    assert [event["phase"] for event in later_app.of("spec.phase_started")] == ["design", "tasks"]
    assert completed(later_app) == [("design", 1), ("tasks", 1)]
    assert chapters_asked(one, after=asked) == [3, 4]
    assert (later_app.manifest["status"], later_app.manifest["session_id"]) == ("completed", session)


def test_when_the_payload_is_restarted_then_finished_phases_are_neither_asked_for_nor_counted_anew(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    script = scenario("plan_hold")
    one = sandbox(script, brief=planning_brief()).start()
    kill_before_design(one, script)
    asked = last_request(one)
    assert one.run() == 0, one.output()
    assert completed(app) == [(phase, 1) for phase in PHASES]
    assert chapters_asked(one, after=asked) == [3, 4]
    assert app.manifest["status"] == "completed"
    assert sorted(app.events) == list(range(1, app.last_seq + 1))


def test_when_a_message_comes_after_the_plan_then_it_may_be_revised_in_a_new_round(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    one = sandbox(scenario("plan_revise"), brief=planning_brief(idle_s=4)).start()
    app.wait(lambda: app.of("agent.waiting"), 40)
    message_id = app.send("Please plan one more thing: a note of the change.")
    app.wait(lambda: len(app.of("agent.waiting")) == 2, 30)
    assert (app.manifest["round"], app.manifest["status"]) == (2, "completed")
    assert app.manifest["summary"] == "I planned one more task."
    assert one.wait() == 0, one.output()
    assert app.acknowledged == [message_id]
    assert completed(app) == [*((phase, 1) for phase in PHASES), ("tasks", 2)]
    revised = app.of("spec.phase_completed")[-1]["output"]["tasks"]
    assert [item["id"] for item in revised] == ["T1", "T2", "T3", "T4"]


def test_when_a_revised_phase_leaves_a_later_one_behind_then_that_one_is_asked_for_again(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    script = scenario(
        "planned",
        tasks=[
            [submitted("tasks", TASKS), say("Planned.")],
            [submitted("tasks", TASKS), submitted("tasks", MORE_TASKS), say("It fits again.")],
        ],
    )
    revise = [submitted("requirements", MORE_REQUIREMENTS), say("A requirement more.")]
    script["on_message"] = [{"match": "as a command", "steps": revise}]
    one = sandbox(script, brief=planning_brief(idle_s=4)).start()
    app.wait(lambda: app.of("agent.waiting"), 40)
    app.send("I want it as a command, too.")
    assert one.wait() == 0, one.output()
    assert completed(app) == [*((phase, 1) for phase in PHASES), ("requirements", 2), ("tasks", 2)]
    retries = [(event["phase"], event["findings"][0]["rule"]) for event in app.of("spec.phase_retry")]
    assert retries == [("tasks", "uncovered")]
    assert app.of("spec.phase_completed")[-1]["output"] == MORE_TASKS
    assert (app.manifest["round"], app.manifest["summary"]) == (2, "It fits again.")


def test_when_all_phases_are_finished_then_a_new_sandbox_only_hears_what_is_new(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    outputs = dict(zip(PHASES, (EXPLORE, REQUIREMENTS, {"approach": "x"}, TASKS), strict=True))
    one = sandbox(
        scenario("plan_revise"),
        brief=planning_brief(outputs=outputs),
        prompt="A person says about the plan: one more task, please.",
    )
    assert one.run() == 0, one.output()
    assert app.of("spec.phase_started") == []
    assert completed(app) == [("tasks", 2)]


def test_when_the_repository_has_other_files_now_then_the_start_commit_decides_what_exists(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    named = EXPLORE | {
        "key_files": [{"path": "src/lib/", "purpose": "p"}, {"path": "made.py", "purpose": "p"}]
    }
    make = {
        "tool_use": [
            {
                "name": "Bash",
                "input": {"command": "echo 1 > made.py; rm -r src; git add -A; git commit -qm x"},
            }
        ]
    }
    turns = [[make, submitted("explore", named), submitted("explore", EXPLORE), say("Done.")]]
    one = sandbox(
        scenario("planned", explore=turns),
        brief=planning_brief(),
        files={"README.md": b"# Example\n", "src/lib/a.py": b"1\n"},
    )
    assert one.run() == 0, one.output()
    findings = app.of("spec.phase_retry")[0]["findings"]
    assert [(finding["rule"], finding["where"]) for finding in findings] == [
        ("missing_file", "key_files[1].path")
    ]
    assert app.manifest["head_sha"] == one.start_sha
