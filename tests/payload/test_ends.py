"""How a run ends: by the model, by a limit, by signals, by the app."""

from __future__ import annotations

import os
import signal
import tarfile
from io import BytesIO
from pathlib import Path

from tests.payload.app_stub import AppStub, Fault
from tests.payload.conftest import SandboxMaker
from tests.payload.sandbox import alive, descendants_of, eventually, git
from tests.payload.steps import bash, say, write

SLEEPER = "python3 -c 'import time; time.sleep(55)'"


def cli_of(root: int) -> int:
    """The command line itself, below its guard."""

    def is_cli(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].endswith(b"_bundled/claude")
        except OSError:
            return False

    return next(pid for pid in descendants_of(root) if is_cli(pid))


def sleepers(root: int) -> list[int]:
    found = []
    for pid in descendants_of(root):
        try:
            if b"time.sleep(55)" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            continue
    return found


def test_when_the_model_refuses_after_work_then_the_run_fails_in_its_words_and_keeps_the_work(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    refused = {
        "kind": "status",
        "status": 400,
        "error_type": "invalid_request_error",
        "message": "credit exhausted",
    }
    script = {
        "turns": [[write("part.py", "1\n"), write("more.py", "2\n"), say("never said")]],
        "faults": [{"fault": {**refused, "times": None}, "after_tool_results": 2}],
    }
    one = sandbox(script, brief={"idle_s": 60})
    assert one.run() == 10
    manifest = app.manifest
    assert (manifest["status"], manifest["reason"]) == ("failed", "model_error")
    assert "credit exhausted" in manifest["detail"]
    assert "success" not in manifest["detail"]
    assert app.of("agent.failed")[0]["reason"] == "model_error"
    assert "agent.completed" not in app.types()
    assert one.changed() == {"part.py": "A", "more.py": "A"}


def test_when_turns_run_out_then_the_run_fails_with_max_turns(app: AppStub, sandbox: SandboxMaker) -> None:
    one = sandbox(
        [[write("a", "1\n"), write("b", "2\n"), write("c", "3\n"), say("done")]], brief={"max_turns": 2}
    )
    assert one.run() == 10
    assert app.manifest["reason"] == "max_turns"
    assert "a" in one.changed()


def test_when_the_time_is_up_then_the_work_so_far_is_handed_over_and_nothing_runs_on(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    one = sandbox([[write("a.txt", "1\n"), bash(SLEEPER), say("done")]], brief={"task_timeout_s": 8}).start()
    assert one.process is not None
    running = eventually(lambda: sleepers(one.process.pid), 20)
    assert one.wait() == 40
    assert (app.manifest["status"], app.manifest["reason"]) == ("failed", "time_limit")
    assert one.changed() == {"a.txt": "A"}
    assert not any(alive(pid) for pid in running)


def test_when_terminated_then_the_work_is_wrapped_up_within_seconds(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    one = sandbox([[write("a.txt", "1\n"), bash(SLEEPER), say("done")]]).start()
    assert one.process is not None
    running = eventually(lambda: sleepers(one.process.pid), 20)
    one.process.send_signal(signal.SIGTERM)
    assert one.wait(20) == 143
    assert (app.manifest["status"], app.manifest["reason"]) == ("cancelled", "terminated")
    assert one.changed() == {"a.txt": "A"}
    assert {"checkpoint.bundle", "result.bundle"} <= set(app.artifacts)
    with tarfile.open(fileobj=BytesIO(app.artifacts["transcript.tar.gz"])) as tar:
        assert any(name.endswith(f"/{app.manifest['session_id']}.jsonl") for name in tar.getnames())
    assert app.types()[-1] == "agent.shutdown"
    assert not any(alive(pid) for pid in running)


def test_when_the_agents_process_is_killed_then_that_is_the_reason_and_its_commands_end(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    one = sandbox([[write("a.txt", "1\n"), bash(f"setsid {SLEEPER}"), say("done")]]).start()
    assert one.process is not None
    running = eventually(lambda: sleepers(one.process.pid), 20)
    os.kill(cli_of(one.process.pid), signal.SIGKILL)
    assert one.wait() == 10
    assert app.manifest["reason"] == "cli_killed"
    assert "SIGKILL" in app.manifest["detail"]
    assert one.changed() == {"a.txt": "A"}
    assert not any(alive(pid) for pid in running)


def test_when_the_payload_is_killed_then_nothing_runs_on_and_a_restart_goes_on_with_the_session(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    script = {
        "turns": [[write("a.txt", "1\n"), bash(SLEEPER), say("never")]],
        "on_message": [{"match": "was restarted", "steps": [write("b.txt", "2\n"), say("Done after all.")]}],
    }
    one = sandbox(script).start()
    assert one.process is not None
    eventually(lambda: sleepers(one.process.pid), 20)
    below = descendants_of(one.process.pid)
    assert len(below) >= 3
    os.kill(one.process.pid, signal.SIGKILL)
    one.process.wait()
    eventually(lambda: not any(alive(pid) for pid in below), 10)
    assert one.run() == 0, one.output()
    assert app.manifest["summary"] == "Done after all."
    assert one.changed() == {"a.txt": "A", "b.txt": "A"}
    assert sorted(app.events) == list(range(1, app.last_seq + 1))


def test_when_the_app_says_the_sandbox_has_ended_then_the_payload_ends_at_once(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    one = sandbox([[bash(SLEEPER), say("done")]]).start()
    assert one.process is not None
    running = eventually(lambda: sleepers(one.process.pid), 20)
    with app.changed:
        app.ended = True
        app.changed.notify_all()
    assert one.wait(15) == 30
    assert app.artifacts == {}
    assert not any(alive(pid) for pid in running)


def test_when_the_app_is_away_at_the_end_of_a_turn_then_the_work_reaches_it_later(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    app.faults = [
        Fault("POST /events", times=4),
        Fault("POST /events", times=2, after_storing=True),
        Fault("PUT /artifacts/checkpoint.bundle", times=2),
        Fault("PUT /artifacts/checkpoint.bundle", times=1, after_storing=True),
        Fault("PUT /artifacts/manifest.json", status=503, times=2),
    ]
    one = sandbox([[write("a.txt", "1\n"), say("done")]])
    assert one.run() == 0
    assert all(fault.times == 0 for fault in app.faults)
    assert one.changed() == {"a.txt": "A"}
    assert sorted(app.events) == list(range(1, app.last_seq + 1))
    assert app.types()[-1] == "agent.shutdown"


def test_when_inputs_are_unusable_then_it_says_so_and_exits_20(app: AppStub, sandbox: SandboxMaker) -> None:
    one = sandbox([[say("never")]], brief={"start_sha": "not a commit"})
    assert one.run() == 20
    assert "start_sha" in one.output()
    assert app.events == {}


def test_when_a_turn_ends_with_background_work_then_the_result_is_taken_after_it(
    app: AppStub, sandbox: SandboxMaker
) -> None:
    steps = [
        bash("sleep 3; echo late > late.txt", run_in_background=True),
        say("I will go on when it is finished."),
    ]
    one = sandbox([steps, [say("It is finished.")]])
    assert one.run() == 0
    assert one.changed() == {"late.txt": "A"}
    assert app.manifest["summary"] != "I will go on when it is finished."
    assert len([name for name, _ in app.uploads if name == "manifest.json"]) == 1


def test_when_the_agent_works_on_another_branch_then_what_it_left_checked_out_is_the_result(
    sandbox: SandboxMaker,
) -> None:
    commands = "git switch -q -c my-fix && echo 1 > a.txt && git add a.txt && git commit -q -m mine && echo 2 > b.txt"
    one = sandbox([[bash(commands), say("done")]])
    assert one.run() == 0
    assert one.changed() == {"a.txt": "A", "b.txt": "A"}
    assert git(one.result(), "log", "--format=%s", "start..result").splitlines() == ["Add the thing", "mine"]
