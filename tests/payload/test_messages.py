"""Talking to the running agent."""

from __future__ import annotations

import json
import time

from tests.payload.app_stub import AppStub
from tests.payload.conftest import SandboxMaker
from tests.payload.sandbox import ask_model
from tests.payload.steps import bash, say, write

LONG = "python3 -c 'import time; time.sleep(50)'"


def model_saw(url: str, scenario: str, text: str) -> bool:
    return text in json.dumps(ask_model(url, f"/_sim/requests?scenario={scenario}"))


def test_when_a_message_comes_during_a_long_command_then_it_is_read_while_the_command_goes_on(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    script = {
        "turns": [[bash("python3 -c 'import time; time.sleep(7)'; echo kept > kept.txt"), say("done")]],
        "on_message": [{"match": "use tabs", "steps": [write("tabs.txt", "tabs\n"), say("Tabs it is.")]}],
    }
    one = sandbox(script).start()
    app.wait(lambda: app.of("agent.tool_use"))
    text = "Please use tabs.\n@/etc/hostname /compact <b>"
    sent_at = time.monotonic()
    message_id = app.send(text)
    injected = app.wait(lambda: app.of("agent.message_injected"), 15)
    assert time.monotonic() - sent_at < 6
    assert (injected[0]["message_id"], injected[0]["message_type"]) == (message_id, "user_message")
    app.wait(lambda: message_id in app.acknowledged)
    assert one.wait() == 0, one.output()
    assert one.changed() == {"kept.txt": "A", "tabs.txt": "A"}
    assert model_saw(one.model_url, one.scenario, json.dumps(text)[1:-1])
    assert app.acknowledged == [message_id]
    assert len([name for name, _ in app.uploads if name == "manifest.json"]) == 1


def test_when_an_interrupt_comes_then_the_running_command_is_stopped_and_the_words_decide(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    script = {
        "turns": [[bash(LONG), say("never said")]],
        "on_message": [{"match": "do this instead", "steps": [write("instead.txt", "1\n"), say("Instead.")]}],
    }
    one = sandbox(script).start()
    app.wait(lambda: app.of("agent.tool_use"))
    message_id = app.send("Stop, do this instead.", "interrupt")
    app.wait(lambda: message_id in app.acknowledged)
    assert one.wait() == 0, (one.output(), app.manifest)
    assert app.of("agent.interrupted")[0]["by"] == "message"
    assert (app.manifest["status"], app.manifest["summary"]) == ("completed", "Instead.")
    assert one.changed() == {"instead.txt": "A"}


def test_when_a_message_comes_while_waiting_then_it_is_round_two_and_a_new_sandbox_can_go_on_from_there(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    one = sandbox(
        [[write("one.txt", "1\n"), say("First.")], [write("two.txt", "2\n"), say("Second.")]],
        brief={"idle_s": 3},
    )
    one.start()
    app.wait(lambda: app.of("agent.waiting"))
    assert (app.manifest["round"], app.manifest["summary"]) == (1, "First.")
    message_id = app.send("And now the second.")
    app.wait(lambda: len(app.of("agent.waiting")) == 2)
    assert (app.manifest["round"], app.manifest["summary"]) == (2, "Second.")
    assert one.wait() == 0
    assert app.acknowledged == [message_id]
    assert one.changed() == {"one.txt": "A", "two.txt": "A"}

    session, transcript = app.manifest["session_id"], app.artifacts["transcript.tar.gz"]
    later_app = AppStub()
    later_app.start()
    later = sandbox(
        [[say("never")], [say("never")], [write("three.txt", "3\n"), say("Third.")]],
        app=later_app,
        brief={"resume_session_id": session},
        transcript=transcript,
        prompt="Go on with the third.",
    )
    assert later.run() == 0
    later_app.stop()
    assert later_app.manifest["session_id"] == session
    assert later_app.manifest["summary"] == "Third."
    assert later_app.of("agent.error") == []
    assert model_saw(later.model_url, later.scenario, "And now the second.")
    assert model_saw(later.model_url, later.scenario, "Second.")


def test_when_commands_ask_for_input_then_they_see_its_end_and_a_failing_test_is_told(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    one = sandbox(
        [
            [
                bash("cat; echo after"),
                bash("head -c 300000 /dev/zero | tr '\\0' 'x'; printf '\\377\\n'"),
                bash("env"),
                say("done"),
            ]
        ],
        files={"ask.py": b'print("hello", input("name? "))\n'},
        brief={"test_command": "python3 ask.py", "setup_command": "cat > from_setup.txt; echo set up"},
    )
    assert one.run() == 0
    results = app.of("agent.user_tool_result")
    assert results[0]["content"] == "after"
    assert len(results[1]["content"]) > 1_000
    for leaked in ("GIT_AUTHOR_NAME", "PYTHONPATH", "leak"):
        assert leaked not in results[2]["content"]
    commands = {data["subtype"]: data for data in app.of("agent.system_message") if "exit_code" in data}
    assert commands["setup_command"]["output"] == "set up\n"
    assert commands["test_command"]["exit_code"] == 1
    assert "EOFError" in app.manifest["test"]["output"]
    assert app.manifest["status"] == "completed"
