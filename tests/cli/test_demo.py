from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.running import COMMAND, Issuewright

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")


def processes_below(directory: Path) -> list[str]:
    """Command lines of the live processes that know a path below `directory`."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes()
        except OSError:
            continue
        if os.fsencode(directory) in words and int(file.parent.name) != os.getpid():
            found.append(words.replace(b"\0", b" ").decode(errors="replace"))
    return found


def test_demo_turns_an_issue_into_a_pull_request_whose_code_computes(
    issuewright: Issuewright, home: Path
) -> None:
    with subprocess.Popen(
        [*COMMAND, "demo", "--json"],
        env=issuewright.environment(TMPDIR=str(home)),
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        out, err = running.communicate(timeout=240)
    told = json.loads(out)
    assert running.returncode == 0, told
    assert set(told) == {
        *("ok", "issue", "pull_request", "branch", "head_sha", "files", "result", "spec_id", "task_ids"),
        *("sandbox_ids", "events", "github_writes", "seconds"),
    }
    assert told["ok"] is True
    assert told["result"] == "126410606437752"
    assert told["branch"].startswith("feature/1-")
    assert len(told["head_sha"]) == 40
    assert (len(told["task_ids"]), len(told["sandbox_ids"])) == (4, 5), "one of the sandboxes planned"
    assert told["events"] > 5
    assert 5 <= told["github_writes"] <= 60
    assert any(name.endswith(".py") for name in told["files"])
    assert 0 < told["seconds"]["label_to_first_model_call"] < told["seconds"]["total"]
    assert [line[:5] for line in err.splitlines() if line.startswith("[")] == [
        f"[{n}/6]" for n in range(1, 7)
    ]
    assert list(home.glob("issuewright-demo-*")) == []
    assert processes_below(home) == []


@pytest.mark.needs_bubblewrap  # closes the machines' network
def test_demo_behind_a_relay_ends_as_the_others_do(issuewright: Issuewright, home: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "demo", "--sandbox", "daytona", "--link", "relay", "--json"],
        env=issuewright.environment(TMPDIR=str(home)),
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        out, err = running.communicate(timeout=240)
    told = json.loads(out)
    assert running.returncode == 0, told
    assert (told["ok"], told["result"]) == (True, "126410606437752")
    assert "(Issuewright, daytona sandbox behind a relay)" in err
    assert list(home.glob("issuewright-demo-*")) == []
    assert processes_below(home) == []


@pytest.mark.parametrize("more", [(), ("--sandbox", "process"), ("--sandbox", "bubblewrap")])
def test_demo_is_given_a_link_without_daytona_then_it_says_so_and_starts_nothing(
    issuewright: Issuewright, home: Path, more: tuple[str, ...]
) -> None:
    answer = issuewright.run("demo", "--link", "relay", *more)
    assert answer.code == 2
    assert "--link" in answer.err
    assert "--sandbox daytona" in answer.err
    assert answer.out == ""


def test_demo_interrupted_leaves_nothing_behind(issuewright: Issuewright, home: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "demo"],
        env=issuewright.environment(TMPDIR=str(home)),
        cwd=home,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if line.startswith("[2/6]"):
                break
        os.killpg(running.pid, signal.SIGINT)  # Ctrl-C, twice: people are impatient
        os.killpg(running.pid, signal.SIGINT)
        rest = running.stdout.read()
        assert running.wait(timeout=60) == 130, rest
    assert "Traceback" not in rest
    assert list(home.glob("issuewright-demo-*")) == []
    assert processes_below(home) == []


def test_demo_that_nobody_listens_to_any_more_stops_and_leaves_nothing_behind(
    issuewright: Issuewright, home: Path
) -> None:
    with subprocess.Popen(
        [*COMMAND, "demo"],
        env=issuewright.environment(TMPDIR=str(home)),
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        for line in running.stdout:
            if line.startswith("[1/6]"):
                break
        running.stdout.close()  # as `| head -3` does
        assert running.wait(timeout=60) == 1
        assert running.stderr.read() == ""
    assert list(home.glob("issuewright-demo-*")) == []
    assert processes_below(home) == []
