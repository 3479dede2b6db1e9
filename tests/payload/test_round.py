"""One round with the real agent: what a person can read afterwards, and what is handed over."""

from __future__ import annotations

import json

from tests.payload.app_stub import AppStub
from tests.payload.conftest import SandboxMaker
from tests.payload.sandbox import ask_model, git
from tests.payload.steps import bash, say, tool, write


def test_when_the_agent_works_then_every_step_is_reported_and_the_result_handed_over(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    one = sandbox(
        [
            [
                write("hello.py", "print('one')\n"),
                tool("Read", file_path="{workspace}/hello.py"),
                tool("Edit", file_path="{workspace}/hello.py", old_string="one", new_string="two"),
                bash("printf 'by bash\\n' >> README.md; python3 hello.py"),
                say("It prints two."),
            ]
        ],
        brief={"heartbeat_s": 0.3},
    )
    assert one.run() == 0, one.output()
    assert sorted(app.events) == list(range(1, app.last_seq + 1))
    types = app.types()
    assert types[0] == "agent.started"
    assert types[-1] == "agent.shutdown"
    for expected in (
        "agent.system_message",
        "agent.assistant_message",
        "agent.message",
        "agent.tool_use",
        "agent.tool_completed",
        "agent.user_tool_result",
        "agent.file_edited",
        "agent.heartbeat",
        "agent.completed",
        "agent.waiting",
    ):
        assert expected in types, (expected, types)
    edits = [
        (edit["file_path"], edit["change"], edit["lines_added"], edit["lines_removed"])
        for edit in app.of("agent.file_edited")
    ]
    assert edits == [
        ("hello.py", "created", 1, 0),
        ("hello.py", "modified", 1, 1),
        ("README.md", "modified", 1, 0),
    ]
    assert app.of("agent.file_edited")[1]["full_diff"].endswith("-print('one')\n+print('two')\n")
    assert one.changed() == {"README.md": "M", "hello.py": "A"}
    assert git(one.result(), "log", "--format=%an|%s", "start..result") == "Issuewright|Add the thing"
    assert [name for name, _ in app.uploads] == [
        "checkpoint.bundle",
        "result.bundle",
        "transcript.tar.gz",
        "manifest.json",
    ]
    manifest = app.manifest
    assert (manifest["status"], manifest["round"], manifest["summary"]) == ("completed", 1, "It prints two.")
    assert manifest["head_sha"] == git(one.result(), "rev-parse", "result")
    requests = ask_model(one.model_url, f"/_sim/requests?scenario={one.scenario}")
    assert "SYSTEM-TEXT-OF-THE-HOST" in json.dumps(requests)
