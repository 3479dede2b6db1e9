"""Which step answers: the place in the script, over plain HTTP."""

import json
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from simulators.model import ModelSimulator, Script
from simulators.model.scenarios import SANDBOX_GUARD, SCENARIOS
from tests.simulators.model.conftest import Chat, text_in


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {"tool_use": [{"name": "Bash", "input": {"command": command}}], **more}


def command_of(answer: dict[str, Any]) -> str:
    return str(next(block["input"]["command"] for block in answer["content"] if block["type"] == "tool_use"))


@pytest.mark.parametrize(
    "line", ["scenario: no_changes", "> scenario: no_changes\r", "- `scenario: no_changes`"]
)
async def test_scenario_is_chosen_by_a_line_of_the_first_message(
    http: httpx.AsyncClient, model: ModelSimulator, line: str
) -> None:
    chat = Chat(http)
    await chat.say(f"Title\n\n{line}\nmore text")
    await chat.report("listing", "scenario: binomial")
    assert [e["scenario"] for e in model.requests()] == ["no_changes", "no_changes"]


async def test_path_wins_over_the_line_and_binomial_is_played_without_either(
    http: httpx.AsyncClient, model: ModelSimulator
) -> None:
    await Chat(http, "no_changes").say("scenario: secret")
    await Chat(http).say("The scenario: none in this line")
    assert [e["scenario"] for e in model.requests()] == ["no_changes", "binomial"]


async def test_same_request_gets_the_same_step_byte_for_byte(http: httpx.AsyncClient) -> None:
    chat = Chat(http, "binomial")
    await chat.say("Begin.")
    await chat.report("listing")
    chat.messages.pop()
    assert (await chat.ask()).json() == (await chat.ask()).json()


async def test_turns_follow_prompts_and_an_exhausted_script_is_polite(
    http: httpx.AsyncClient, model: ModelSimulator
) -> None:
    model.define("turns", {"turns": [[{"text": "One."}], [bash("ls"), {"text": "Two."}]]})
    chat = Chat(http, "turns")
    assert text_in(await chat.say("a")) == "One."
    assert command_of(await chat.say("b")) == "ls"
    assert text_in(await chat.report("out", "The user sent a new message: c")) == "Two."
    assert (
        text_in(await chat.say("d"))
        == text_in(await chat.say("e"))
        == "Understood. There is nothing left to do."
    )


async def test_placeholders_take_the_workspace_and_what_tools_printed(
    http: httpx.AsyncClient, model: ModelSimulator
) -> None:
    capture = {"n": r"n=(\d+)", "missing": "never"}
    steps = [bash("cat {workspace}/{x}", capture=capture), {"text": "{found:n} {found:missing} {session}"}]
    model.define("fill", {"turns": [steps]})
    chat = Chat(http, "fill", session="s-9")
    assert command_of(await chat.say("go")) == "cat /repo/tree/{x}"
    assert text_in(await chat.report("n=1\nn=22\n")) == "22 (not found) s-9"


async def test_failed_tool_takes_the_side_steps_and_comes_back(
    http: httpx.AsyncClient, model: ModelSimulator
) -> None:
    model.define(
        "side", {"turns": [[bash("a", on_error=[bash("fix"), bash("a again")]), bash("b"), {"text": "c"}]]}
    )
    chat = Chat(http, "side")
    await chat.say("go")
    assert command_of(await chat.report("no", is_error=True)) == "fix"
    assert command_of(await chat.report("ok")) == "a again"
    assert command_of(await chat.report("ok")) == "b"
    assert text_in(await chat.report("no", is_error=True)) == "c"


async def test_message_rule_answers_once_and_leaves_the_script_where_it_was(
    http: httpx.AsyncClient, model: ModelSimulator
) -> None:
    rule = {"match": "(?i)stop", "steps": [{"text": "Stopping."}]}
    model.define("rule", {"turns": [[bash("a"), {"text": "b"}], [{"text": "c"}]], "on_message": [rule]})
    early = Chat(http, "rule")
    assert text_in(await early.say("Stop it")) == "Stopping."
    assert command_of(await early.say("now stop again")) == "a"
    late = Chat(http, "rule")
    await late.say("go")
    assert text_in(await late.report("out", "please stop")) == "Stopping."
    assert text_in(await late.say("stop")) == "c"


async def test_rule_hears_system_messages_of_hooks(http: httpx.AsyncClient, model: ModelSimulator) -> None:
    rule = {"match": "nudged", "steps": [{"text": "Heard."}]}
    model.define("hook", {"turns": [[bash("a"), {"text": "b"}]], "on_message": [rule]})
    chat = Chat(http, "hook")
    await chat.say("go")
    await chat.report("out")
    chat.messages[-1:] = [{"role": "system", "content": "a hook nudged"}]
    assert text_in((await chat.ask()).json()) == "Heard."


async def test_probe_takes_no_step(http: httpx.AsyncClient, model: ModelSimulator) -> None:
    probe = Chat(http, "binomial", messages=[{"role": "user", "content": "Hi"}])
    await probe.ask(max_tokens=1)
    assert model.requests()[0]["kind"] == "probe"
    assert model.requests()[0]["step"] == "probe"


async def test_forged_position_line_in_a_summary_is_ignored(
    http: httpx.AsyncClient, model: ModelSimulator
) -> None:
    model.define("forged", {"turns": [[{"text": "One."}]]})
    for state in ("{}", '{"place": [1]}', '{"place": [0, 0, "", 0, 0], "fired": 3}', '{"place": null}'):
        chat = Chat(http, "forged")
        prompt = f"This session is being continued from a previous conversation\nscript position: {state}"
        assert text_in(await chat.say(prompt)) == "One."


async def test_tool_ids_that_point_nowhere_are_harmless(http: httpx.AsyncClient) -> None:
    for place in ("t99s99i0_ab", "t0s99i0_ab", "t0s0r9k9i0_ab", "t0s99e0k3i0_ab"):
        call = {"type": "tool_use", "id": f"toolu_{place}", "name": "Bash", "input": {}}
        chat = Chat(http, "binomial", messages=[{"role": "user", "content": "go"}])
        chat.messages.append({"role": "assistant", "content": [call]})
        assert (await chat.report("out", is_error=True))["stop_reason"] in {"end_turn", "tool_use"}


async def test_subagent_plays_the_script_of_its_session(
    http: httpx.AsyncClient, model: ModelSimulator
) -> None:
    await Chat(http, session="s").say("scenario: subagent")
    inner = Chat(http, session="s", agent="agent-1")
    assert "git ls-files" in command_of(await inner.say("Count."))
    assert text_in(await inner.report(" 12\n")) == "There are 12 files."
    assert model.requests(agent="agent-1")[0]["scenario"] == "subagent"


async def test_script_is_defined_shown_and_checked_over_http(http: httpx.AsyncClient) -> None:
    script = Script.model_validate({"turns": [[{"text": "Defined."}]]})
    made = await http.post("/_sim/scripts/mine", content=script.model_dump_json())
    assert made.status_code == 204
    assert Script.model_validate((await http.get("/_sim/scripts/mine")).json()) == script
    assert text_in(await Chat(http, "mine").say("go")) == "Defined."
    for wrong in (b"x", b'{"turn": []}', b'{"on_message": [{"match": "(", "steps": [{"text": "x"}]}]}'):
        assert (await http.post("/_sim/scripts/mine", content=wrong)).status_code == 422
    assert (await http.get("/_sim/scripts/none")).status_code == 404


def test_adversary_outside_a_sandbox_only_says_so(tmp_path: Path) -> None:
    commands = [tool.input["command"] for step in SCENARIOS["adversary"].turns[0] for tool in step.tool_use]
    assert len(commands) == 8
    assert all(command.startswith(SANDBOX_GUARD) for command in commands)
    guarded = ["bash", "-c", SANDBOX_GUARD + "echo searched >> loot.txt"]
    ended = subprocess.run(guarded, cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}, check=False)
    assert ended.returncode == 1
    assert (tmp_path / "loot.txt").read_text() == "not in a sandbox\n"
    subprocess.run(guarded, cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "SANDBOX_ID": "s"}, check=True)
    assert (tmp_path / "loot.txt").read_text().endswith("searched\n")


NEED_MORE = {
    "hang",
    "long",
    "loops",
    "deletes_tests",
    "drifts",
    "credit_exhausted",
    "retired_model",
    "overloaded",
}
"""Gates, a long time, or another ear than this one."""


@pytest.mark.parametrize("name", sorted(set(SCENARIOS) - NEED_MORE))
async def test_built_in_scenario_plays_to_its_end(http: httpx.AsyncClient, name: str) -> None:
    chat = Chat(http, name)
    answer = await chat.say("Begin.")
    for _ in range(20):
        if answer["stop_reason"] == "end_turn":
            break
        answer = await chat.report("1\t# Title\nOK\n42\nThere are 3 files")
    assert answer["stop_reason"] == "end_turn"
    assert text_in(answer)
    assert "(not found)" not in text_in(answer) or name in {"binomial", "steered"}


async def test_forced_tool_is_called_with_the_first_verdict_that_matches_else_with_a_good_one(
    http: httpx.AsyncClient, model: ModelSimulator
) -> None:
    model.define("judged", {"verdicts": [{"match": "game", "input": {"good": False}}]})
    for shown, given in (("game.py", {"good": False}), ("binomial.py", {"aligned": True})):
        content = json.dumps({"text": "Please.\n\nscenario: judged\n", "trajectory": [shown]})
        body = {
            "model": "m",
            "max_tokens": 100,
            "messages": [{"role": "user", "content": content}],
            "tool_choice": {"type": "tool", "name": "judge"},
        }
        (block,) = (await http.post("/v1/messages", json=body)).json()["content"]
        assert block["name"] == "judge"
        assert given.items() <= block["input"].items()
    assert {entry["kind"] for entry in model.requests()} == {"verdict"}
