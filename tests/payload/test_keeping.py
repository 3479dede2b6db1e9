"""What a sandbox that vanishes in the middle of a round has left with the app."""

from __future__ import annotations

import hashlib
import os
import signal
import tarfile
from io import BytesIO

from sandbox_payload.wire import Manifest
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


def test_when_the_session_that_was_brought_along_is_damaged_then_a_new_one_is_told_what_the_work_is(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    script = {
        "on_message": [{"match": "for this issue", "steps": [write("a.txt", "1\n"), say("Done anew.")]}]
    }
    lost = "5d1f2f1e-8f0c-4f6e-9f39-0d6a0f0c7a11"
    one = sandbox(
        script, brief={"resume_session_id": lost}, prompt="Go on.", prompt_anew="Go on for this issue.",
        transcript=b"damaged",
    )  # fmt: skip
    assert one.run() == 0, one.output()
    assert app.manifest["summary"] == "Done anew."
    assert app.manifest["session_id"] != lost
    [error] = app.of("agent.error")
    assert (error["reason"], error["session_id"]) == ("session_not_restored", lost)


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
    waiting = "until [ -e ../refused ]; do sleep 0.1; done"
    one = sandbox([[write("a.txt", "1\n"), bash(waiting), say("done")]], brief={"keep_s": 0.4}).start()
    app.wait(lambda: all(fault.times == 0 for fault in app.faults) or None)
    (one.folder / "refused").touch()
    assert one.wait() == 0
    assert one.changed() == {"a.txt": "A"}
    with tarfile.open(fileobj=BytesIO(app.artifacts["transcript.tar.gz"])) as tar:
        assert any(name.endswith(f"/{app.manifest['session_id']}.jsonl") for name in tar.getnames())


def test_when_the_app_is_away_then_session_and_work_lie_ready_in_the_sandbox_and_are_renewed(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    app.faults = [Fault("PUT /artifacts/", status=503, times=10_000)]
    commands = "until [ -e ../state/kept.bundle ]; do sleep 0.1; done; echo 2 > b.txt; " + SLEEPER
    one = sandbox([[write("a.txt", "1\n"), bash(commands)]], brief={"keep_s": 0.4}).start()

    def kept() -> bool:
        """Whether the bundle on disk has what the agent did after the first one."""
        bundle = one.state / "kept.bundle"
        if not bundle.exists():
            return False
        git(one.workspace, "fetch", "-q", "-f", str(bundle), "refs/issuewright/result:refs/heads/kept")
        return "b.txt" in git(one.workspace, "ls-tree", "--name-only", "kept").split()

    eventually(kept, 60)
    assert (one.state / "transcript.tar.gz").exists()
    assert not app.artifacts
    vanish(one)


def test_when_a_round_ends_and_the_app_is_away_then_all_of_it_lies_ready_in_the_sandbox(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    app.faults = [Fault("PUT /artifacts/result.bundle", status=503, times=10_000)]
    one = sandbox([[write("a.txt", "1\n"), say("Done.")]]).start()
    place = one.state / "manifest.json"
    eventually(place.exists, 60)
    manifest = Manifest.model_validate_json(place.read_bytes())
    bundle = (one.state / "work.bundle").read_bytes()
    assert (manifest.status, manifest.summary) == ("completed", "Done.")
    assert manifest.bundle_sha256 == hashlib.sha256(bundle).hexdigest()
    with tarfile.open(one.state / "transcript.tar.gz") as tar:
        assert any(name.endswith(f"/{manifest.session_id}.jsonl") for name in tar.getnames())
    assert "manifest.json" not in app.artifacts
    vanish(one)
