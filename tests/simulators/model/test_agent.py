"""The scripted model driven by the real SDK, its real CLI and real tools."""

import os
import signal
import subprocess
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage

from simulators.model import ModelSimulator
from tests.simulators.model.conftest import until

Options = Callable[..., ClaudeAgentOptions]


def steps(model: ModelSimulator, **wanted: str) -> list[str]:
    return [entry.step or "" for entry in model.log.select(**wanted)]


async def prompt_of(text: str) -> AsyncIterator[dict[str, Any]]:
    yield {
        "type": "user",
        "message": {"role": "user", "content": text},
        "parent_tool_use_id": None,
        "uuid": str(uuid.uuid4()),
    }


async def run(client: ClaudeSDKClient, text: str) -> ResultMessage:
    await client.query(prompt_of(text))
    return await result_of(client)


async def result_of(client: ClaudeSDKClient) -> ResultMessage:
    messages = [message async for message in client.receive_response()]
    result = messages[-1]
    assert isinstance(result, ResultMessage)
    return result


async def test_binomial_named_in_the_issue_is_written_edited_tested_and_computed(
    model: ModelSimulator, options: Options, repository: Path
) -> None:
    async with ClaudeSDKClient(options()) as client:
        result = await run(client, "Please add C(n, k).\r\n\r\nscenario: binomial\r\n")
    assert not result.is_error
    assert "(OK)" in (result.result or "")
    assert "C(50,25) = 126410606437752" in (result.result or "")
    assert "// i" in (repository / "binomial.py").read_text()
    assert steps(model) == [f"t0s{n}" for n in range(7)]
    status = subprocess.run(
        ["git", "status", "--short"], cwd=repository, capture_output=True, text=True, check=True
    )
    assert status.stdout.split() == ["??", "binomial.py", "??", "tests/"]


async def test_binomial_where_the_file_is_there_already_still_computes(
    options: Options, repository: Path
) -> None:
    (repository / "binomial.py").write_text("def binomial(n, k): ...\n")
    async with ClaudeSDKClient(options("binomial")) as client:
        result = await run(client, "Add C(n, k).")
    assert "C(50,25) = 126410606437752" in (result.result or "")


async def test_message_in_the_middle_of_a_turn_fires_its_rule_and_the_turn_goes_on(
    model: ModelSimulator, options: Options, repository: Path
) -> None:
    held = {
        "text": "Waiting.",
        "tool_use": [{"name": "Bash", "input": {"command": "echo one"}}],
        "gate": "held",
    }
    changes = {"file_path": "{workspace}/CHANGES.md", "content": "noted\n"}
    rule = {"match": "CHANGES", "steps": [{"tool_use": [{"name": "Write", "input": changes}]}]}
    model.define("held", {"turns": [[held, {"text": "All done."}]], "on_message": [rule]})
    async with ClaudeSDKClient(options("held")) as client:
        await client.query(prompt_of("Begin."))
        await until(lambda: bool(model.gates.to_json()))
        await client.query(prompt_of("Write a CHANGES.md too, please."))
        model.gates.open("held")
        result = await result_of(client)
    assert result.result == "All done."
    assert (repository / "CHANGES.md").read_text() == "noted\n"
    assert steps(model) == ["t0s0", "t0s1r0k0", "t0s1"]


async def test_interrupted_turn_is_over_and_the_next_prompt_gets_the_next_turn(
    model: ModelSimulator, options: Options, repository: Path
) -> None:
    tool = {"name": "Bash", "input": {"command": "touch running; python3 -c 'import time; time.sleep(60)'"}}
    model.define(
        "stopped", {"turns": [[{"tool_use": [tool]}, {"text": "Never."}], [{"text": "Second turn."}]]}
    )
    async with ClaudeSDKClient(options("stopped")) as client:
        await client.query(prompt_of("Begin."))
        await until((repository / "running").exists)
        await client.interrupt()
        await result_of(client)
        result = await run(client, "Something else.")
    assert result.result == "Second turn."


async def test_overloaded_once_is_retried_and_gets_the_same_step(
    model: ModelSimulator, options: Options
) -> None:
    model.define("busy", {"turns": [[{"fault": {"kind": "status"}}, {"text": "There you are."}]]})
    async with ClaudeSDKClient(options("busy")) as client:
        result = await run(client, "Hello?")
    assert result.result == "There you are."
    assert [(e.step, e.status) for e in model.log.select()] == [("t0s1", 529), ("t0s1", 200)]


async def test_refused_request_then_a_new_prompt_goes_on_with_the_same_turn(
    model: ModelSimulator, options: Options
) -> None:
    fault = {"kind": "status", "status": 403}
    model.define("refused", {"turns": [[{"fault": fault}, {"text": "First turn."}], [{"text": "Second."}]]})
    async with ClaudeSDKClient(options("refused")) as client:
        refused = await run(client, "Begin.")
        result = await run(client, "Again.")
    assert refused.is_error
    assert refused.api_error_status == 403
    assert result.result == "First turn."


async def test_session_resumed_in_a_new_process_goes_on_with_the_next_turn(
    model: ModelSimulator, options: Options
) -> None:
    tool = {"name": "Bash", "input": {"command": "echo number 42"}}
    first = [{"tool_use": [tool], "capture": {"n": r"number (\d+)"}}, {"text": "One."}]
    model.define("two", {"turns": [first, [{"text": "Two, and {found:n}."}]]})
    async with ClaudeSDKClient(options("two")) as client:
        one = await run(client, "Begin.")
    async with ClaudeSDKClient(options("two", resume=one.session_id)) as client:
        two = await run(client, "Go on.")
    assert (one.result, two.result) == ("One.", "Two, and 42.")
    assert two.session_id == one.session_id


async def test_session_resumed_after_a_kill_repeats_the_call_whose_outcome_is_unknown(
    model: ModelSimulator, options: Options, repository: Path
) -> None:
    wait = {
        "name": "Bash",
        "input": {"command": "echo x >> tries; while [ ! -e again ]; do read -t 0.1; done <> pipe"},
    }
    os.mkfifo(repository / "pipe")
    model.define("killed", {"turns": [[{"tool_use": [wait]}, {"text": "Finished."}], [{"text": "Too far."}]]})
    session = str(uuid.uuid4())
    client = ClaudeSDKClient(options("killed", session_id=session))
    await client.connect()
    await client.query(prompt_of("Begin."))
    await until((repository / "tries").exists)
    os.kill(client._transport._process.pid, signal.SIGKILL)  # type: ignore[union-attr]
    await client.disconnect()
    (repository / "again").touch()
    async with ClaudeSDKClient(options("killed", resume=session)) as resumed:
        result = await run(resumed, "Go on.")
    assert result.result == "Finished."
    assert steps(model) == ["t0s0", "t0s0", "t0s1"]


async def test_subagent_counts_its_own_steps_and_its_report_reaches_the_main_thread(
    model: ModelSimulator, options: Options, repository: Path
) -> None:
    async with ClaudeSDKClient(options()) as client:
        result = await run(client, "Count.\n\n> scenario: subagent")
    assert result.result == "The subagent counted 1 files."
    assert (repository / "count.txt").read_text().strip() == "1"
    inner = [entry.step for entry in model.log.select() if entry.agent]
    outer = [entry.step for entry in model.log.select() if not entry.agent]
    assert (inner, outer) == (["t0s0", "t0s1"], ["t0s0", "t0s1"])


async def test_compaction_in_the_middle_of_a_turn_keeps_the_place(
    model: ModelSimulator, options: Options
) -> None:
    def echo(text: str, **more: Any) -> dict[str, Any]:
        return {"tool_use": [{"name": "Bash", "input": {"command": f"echo {text}"}}], **more}

    full = {"input_tokens": 1_010_000}
    turn = [
        echo("number 7", capture={"n": r"number (\d)"}),
        echo("b", usage=full),
        echo("c"),
        {"text": "Got {found:n}."},
    ]
    model.define("full", {"turns": [turn]})
    async with ClaudeSDKClient(options("full")) as client:
        result = await run(client, "Begin.")
    assert result.result == "Got 7."
    assert steps(model) == ["t0s0", "t0s1", "compaction", "t0s2", "t0s3"]


async def test_structured_output_forgotten_then_nudged_stays_in_its_turn(
    model: ModelSimulator, options: Options
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    def submit(n: object) -> dict[str, Any]:
        return {"tool_use": [{"name": "StructuredOutput", "input": {"n": n}}]}

    turns = [[{"text": "Here."}, submit("wrong"), submit(3)], [submit(4)]]
    model.define("structured", {"turns": turns})
    formatted = options("structured", output_format={"type": "json_schema", "schema": schema})
    async with ClaudeSDKClient(formatted) as client:
        first = await run(client, "Begin.")
        second = await run(client, "Again.")
    assert (first.structured_output, second.structured_output) == ({"n": 3}, {"n": 4})


async def test_set_model_probe_takes_no_step(model: ModelSimulator, options: Options) -> None:
    model.define("probe", {"turns": [[{"text": "One."}], [{"text": "Two."}]]})
    async with ClaudeSDKClient(options("probe")) as client:
        await run(client, "Begin.")
        await client.set_model("another-model")
        result = await run(client, "Go on.")
    assert result.result == "Two."
    assert steps(model, kind="turn") == ["t0s0", "t1s0"]
