"""The planning scenarios: which prompt gets which part of the plan, and that good parts are good and bad ones bad."""

from typing import Any

import httpx
import pytest

from app.domain.plan import sync_plan
from app.domain.planning import phase_orders
from app.domain.spec import BadOutput, parse_output
from sandbox_payload.wire.gates import find_faults
from sandbox_payload.wire.plan import AGENT_PHASES, PhaseName
from simulators.model.planned import DESIGN, EXPLORE, PLANNED, REQUIREMENTS, TASKS
from tests.simulators.model.conftest import Chat, text_in

OUTPUTS = dict(zip(AGENT_PHASES, (EXPLORE, REQUIREMENTS, DESIGN, TASKS), strict=True))
INSTRUCTIONS = {order.name: order.instructions for order in phase_orders(AGENT_PHASES)}
PROMPT = "Plan the work.\n\n> scenario: {name}\n\n"


def exists(path: str) -> bool:
    return path == "README.md"


def call_in(answer: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    block = next(block for block in answer["content"] if block["type"] == "tool_use")
    return block["name"].removeprefix("mcp__issuewright__submit_"), block["input"]


def submitted(name: str) -> list[tuple[PhaseName, dict[str, Any]]]:
    """Every output that a scenario hands in, in order."""
    steps = [step for chapter in PLANNED[name].chapters for turn in chapter.turns for step in turn]
    calls = [
        tool for step in steps for tool in step.tool_use if tool.name.startswith("mcp__issuewright__submit_")
    ]
    return [(PhaseName(call.name.rpartition("_")[2]), call.input) for call in calls]


def faults(phase: PhaseName, output: dict[str, Any]) -> list[str]:
    try:
        parse_output(phase, output)
    except BadOutput:
        return ["schema"]
    earlier = {name: OUTPUTS[name] for name in AGENT_PHASES[: AGENT_PHASES.index(phase)]}
    return sorted({found.rule for found in find_faults(phase, output, earlier, exists)})


async def test_each_phase_is_known_by_its_prompt_also_without_the_ones_before(
    http: httpx.AsyncClient,
) -> None:
    whole = Chat(http)
    for phase in AGENT_PHASES:
        answer = await whole.say(
            (PROMPT.format(name="planned") if phase == "explore" else "") + INSTRUCTIONS[phase]
        )
        while call_in(answer)[0] != phase:
            answer = await whole.report("fine")
        assert call_in(answer)[1] == OUTPUTS[phase]
        assert text_in(await whole.report("Accepted.")) == f"The phase {phase} is handed in."
    fresh = Chat(http)
    answer = await fresh.say(PROMPT.format(name="planned") + INSTRUCTIONS[PhaseName.DESIGN])
    assert call_in(answer) == ("design", DESIGN)


async def test_each_task_is_known_by_the_first_line_of_its_prompt(http: httpx.AsyncClient) -> None:
    written = []
    for key in ("T1", "T2", "T3", "T4"):
        prompt = f"Task {key} of a plan: Do it\n\nDone before:\nTask T1 of a plan\n> scenario: planned\n"
        answer = await Chat(http).say(prompt)
        written.append(call_in(answer)[1]["file_path"].removeprefix("/repo/tree/"))
    assert written == ["binomial.py", "tests/test_binomial.py", "docs/binomial.md", "CHANGES.md"]


async def test_a_reminder_gets_the_next_turn_of_the_phase(http: httpx.AsyncClient) -> None:
    chat = Chat(http)
    first = await chat.say(PROMPT.format(name="plan_prose") + INSTRUCTIONS[PhaseName.EXPLORE])
    assert first["stop_reason"] == "end_turn"
    assert call_in(await chat.say("The phase explore is not done.")) == ("explore", EXPLORE)


async def test_a_message_after_the_plan_gets_one_more_task(http: httpx.AsyncClient) -> None:
    chat = Chat(http)
    await chat.say(PROMPT.format(name="plan_revise") + INSTRUCTIONS[PhaseName.TASKS])
    await chat.report("Accepted.")
    said = "[Message from a person on GitHub, who may write to this repository. Their words:]\nPlease more."
    phase, output = call_in(await chat.say(said))
    assert (phase, [task["id"] for task in output["tasks"]]) == ("tasks", ["T1", "T2", "T3", "T4"])


def test_the_plan_passes_every_gate_and_is_the_one_of_the_demo() -> None:
    assert [faults(phase, output) for phase, output in OUTPUTS.items()] == [[], [], [], []]
    report = sync_plan({str(phase): output for phase, output in OUTPUTS.items()}, exists)
    assert (report.findings, [task.key for task in report.tasks]) == ((), ["T1", "T2", "T3"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plan_bad_json", [["schema"], ["schema"], [], [], [], []]),
        ("plan_cycle", [[], [], [], ["cycle"], []]),
        ("plan_missing_file", [["missing_file"], [], [], [], []]),
        ("plan_huge", [[], [], [], *[["too_many_tasks"]] * 3]),
        ("plan_one_task", [[], [], [], ["too_big_task"], []]),
        ("plan_empty", [[], ["empty_plan"], [], [], ["empty_plan"], []]),
        ("plan_markers", [[], [], [], []]),
    ],
)
def test_what_a_scenario_gets_wrong_is_what_its_name_says(name: str, expected: list[list[str]]) -> None:
    assert [faults(phase, output) for phase, output in submitted(name)] == expected
