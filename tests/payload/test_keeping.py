"""What a sandbox that vanishes in the middle of a round has left with the app."""

from __future__ import annotations

import os
import signal
import tarfile
from io import BytesIO

from tests.payload.app_stub import AppStub, Fault
from tests.payload.conftest import SandboxMaker
from tests.payload.sandbox import Sandbox, eventually, git
from tests.payload.steps import bash, say, write
from tests.payload.test_ends import SLEEPER, sleepers

KEPT = ("transcript.tar.gz", "checkpoint.bundle")


def vanish(one: Sandbox) -> None:
    assert one.process is not None
    os.kill(one.process.pid, signal.SIGKILL)
    one.process.wait()


def running_tool(one: Sandbox) -> None:
    """Until the long command of its script runs."""
    assert one.process is not None
    pid = one.process.pid
    eventually(lambda: sleepers(pid), 30)


def test_when_a_sandbox_vanishes_mid_round_then_another_goes_on_with_its_session_and_its_work(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    script = {
        "turns": [[write("a.txt", "1\n"), bash(SLEEPER), say("never")]],
        "on_message": [
            {"match": "in a new sandbox", "steps": [bash("echo 2 > b.txt"), say("Done after all.")]}
        ],
    }
    first = sandbox(script, brief={"keep_s": 0.4}).start()
    running_tool(first)
    done = len(app.uploads)
    app.wait(lambda: set(KEPT) <= {name for name, _ in app.uploads[done:]} or None)
    [begun] = app.of("agent.started")
    vanish(first)
    assert "manifest.json" not in app.artifacts
    bundle = first.folder / "kept.bundle"
    bundle.write_bytes(app.artifacts["checkpoint.bundle"])
    git(first.workspace, "fetch", "-q", str(bundle), "refs/issuewright/result:refs/heads/kept")
    assert git(first.workspace, "show", "kept:a.txt") == "1"

    app.events.clear()
    second = sandbox(
        script, brief={"resume_session_id": begun["session_id"]}, prompt="Go on in a new sandbox, please.",
        transcript=app.artifacts["transcript.tar.gz"],
    )  # fmt: skip
    assert second.run() == 0, second.output()
    assert app.manifest["summary"] == "Done after all."
    assert app.manifest["session_id"] == begun["session_id"]
    assert "agent.error" not in app.types()
    assert second.changed() == {"b.txt": "A"}


def test_when_work_is_kept_mid_round_then_the_agents_repository_stays_as_it_was(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    commands = "git add a.txt && git commit -q -m mine && echo 2 > b.txt && echo 3 > c.txt && git add b.txt"
    one = sandbox([[write("a.txt", "1\n"), bash(commands), bash(SLEEPER)]], brief={"keep_s": 0.4}).start()
    running_tool(one)
    before = git(one.workspace, "rev-parse", "HEAD"), git(one.workspace, "status", "--porcelain")
    done = len(app.uploads)
    app.wait(lambda: "transcript.tar.gz" in {name for name, _ in app.uploads[done:]} or None)
    app.wait(lambda: app.artifacts.get("checkpoint.bundle"))
    assert before[1].splitlines() == ["A  b.txt", "?? c.txt"]
    assert (git(one.workspace, "rev-parse", "HEAD"), git(one.workspace, "status", "--porcelain")) == before
    assert git(one.workspace, "log", "-1", "--format=%s") == "mine"


def test_when_nothing_has_changed_then_nothing_is_sent_again(app: AppStub, sandbox: SandboxMaker) -> None:
    one = sandbox([[write("a.txt", "1\n"), bash(SLEEPER)]], brief={"keep_s": 0.4, "heartbeat_s": 0.2}).start()
    running_tool(one)
    app.wait(lambda: set(KEPT) <= set(app.artifacts) or None)
    beats = len(app.of("agent.heartbeat"))
    app.wait(lambda: len(app.of("agent.heartbeat")) > beats + 5 or None)  # what was under way has arrived
    sent, beats = len(app.uploads), len(app.of("agent.heartbeat"))
    app.wait(lambda: len(app.of("agent.heartbeat")) > beats + 10 or None)
    assert len(app.uploads) == sent


def test_when_the_app_refuses_what_is_kept_then_the_round_goes_on_and_ends_well(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    app.faults = [
        Fault("PUT /artifacts/transcript.tar.gz", status=413),
        Fault("PUT /artifacts/checkpoint.bundle", status=503),
    ]
    one = sandbox([[write("a.txt", "1\n"), bash("sleep 2"), say("done")]], brief={"keep_s": 0.4})
    assert one.run() == 0
    assert all(fault.times == 0 for fault in app.faults)
    assert one.changed() == {"a.txt": "A"}
    with tarfile.open(fileobj=BytesIO(app.artifacts["transcript.tar.gz"])) as tar:
        assert any(name.endswith(f"/{app.manifest['session_id']}.jsonl") for name in tar.getnames())
