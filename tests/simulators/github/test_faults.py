"""Faults, limits, the request log, and serving as a process."""

import json
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from simulators.github.control import Control, ControlError
from tests.simulators.github.conftest import REPO, Stage


def test_fault_when_status_then_as_often_as_said(stage: Stage) -> None:
    stage.control.add_fault(method="POST", path="/issues$", status=502, times=2)
    with stage.client() as http:
        codes = [http.post(f"/repos/{REPO}/issues", json={"title": "T"}).status_code for _ in range(3)]
    assert codes == [502, 502, 201]
    assert len(stage.control.repo(REPO)["issues"]) == 1
    assert [one["hits"] for one in stage.control.list_faults()] == [2]
    stage.control.clear_faults()
    assert stage.control.list_faults() == []


def test_fault_when_apply_then_done_but_answered_502(stage: Stage) -> None:
    stage.control.add_fault(method="WRITE", status=502, apply=True, times=1)
    with stage.client() as http:
        assert http.get(f"/repos/{REPO}").status_code == 200
        assert http.post(f"/repos/{REPO}/issues", json={"title": "T"}).status_code == 502
    assert [one["title"] for one in stage.control.repo(REPO)["issues"]] == ["T"]


@pytest.mark.parametrize("apply", [True, False])
def test_fault_when_connection_drops_then_transport_error(stage: Stage, apply: bool) -> None:
    stage.control.add_fault(method="POST", drop=True, apply=apply, times=1)
    with stage.client() as http:
        with pytest.raises(httpx.RemoteProtocolError):
            http.post(f"/repos/{REPO}/issues", json={"title": "T"})
        assert http.get(f"/repos/{REPO}").status_code == 200
    assert len(stage.control.repo(REPO)["issues"]) == int(apply)


def test_fault_when_body_is_truncated_then_incomplete_read(stage: Stage) -> None:
    stage.control.add_fault(method="GET", truncate=20, times=1)
    with stage.client() as http, pytest.raises(httpx.RemoteProtocolError):
        http.get(f"/repos/{REPO}")


def test_fault_when_secondary_limit_or_redirect_then_headers_are_there(stage: Stage) -> None:
    stage.control.add_fault(secondary=True, times=1)
    stage.control.add_fault(status=302, headers={"Location": "http://elsewhere.example/"}, times=1)
    stage.control.add_fault(status=404, message="Not Found", times=1)
    with stage.client() as http:
        limited, moved, missing, fine = (http.get(f"/repos/{REPO}") for _ in range(4))
    assert (limited.status_code, limited.headers["retry-after"]) == (403, "60")
    assert "secondary rate limit" in limited.json()["message"]
    assert moved.headers["location"] == "http://elsewhere.example/"
    assert (missing.status_code, fine.status_code) == (404, 200)


def test_fault_when_delay_then_slow(stage: Stage) -> None:
    stage.control.add_fault(delay_s=0.3, times=1)
    with stage.client() as http:
        started = time.monotonic()
        http.get(f"/repos/{REPO}")
    assert time.monotonic() - started >= 0.3


def test_fault_when_only_for_git_or_for_one_kind_of_token_then_others_pass(stage: Stage) -> None:
    stage.control.add_fault(token="git", status=503)
    stage.control.add_fault(token="app", status=500)
    with stage.client() as http, stage.as_app() as app:
        assert http.get(f"/repos/{REPO}").status_code == 200
        assert app.get("/app").status_code == 500
    done = subprocess.run(["git", "ls-remote", stage.remote()], capture_output=True, text=True, check=False)
    assert "503" in done.stderr


def test_limit_when_exhausted_then_403_until_reset(stage: Stage) -> None:
    stage.control.exhaust_limit(300, stage.installation)
    with stage.client() as http, stage.as_app() as app:
        answer = http.get(f"/repos/{REPO}")
        assert answer.status_code == 403
        assert answer.headers["x-ratelimit-remaining"] == "0"
        assert int(answer.headers["x-ratelimit-reset"]) > time.time() + 200
        assert app.get("/app").status_code == 200
        stage.control.advance_clock(301)
        assert http.get(f"/repos/{REPO}").status_code == 200


def test_log_when_written_then_bodies_callers_and_monotonic_times(stage: Stage) -> None:
    with stage.client() as http:
        for title in ("A", "B"):
            http.post(f"/repos/{REPO}/issues", json={"title": title})
        http.post(f"/repos/{REPO}/issues", json={})
        http.get(f"/repos/{REPO}")
    writes = stage.control.writes()
    assert [one["body"] for one in writes] == [{"title": "A"}, {"title": "B"}]
    assert writes[0]["at"] < writes[1]["at"]
    assert writes[0]["caller"]["installation_id"] == stage.installation
    assert len(stage.control.requests("rest", "POST")) == 3


def test_control_when_wrong_then_says_what(stage: Stage) -> None:
    with pytest.raises(ControlError, match="no user nobody"):
        stage.control.open_issue(REPO, "nobody", "T")
    with pytest.raises(ControlError, match=r"unexpected|missing"):
        stage.control.do("issues/open", repo=REPO, colour="red")
    with pytest.raises(ControlError, match="no action"):
        stage.control.do("issues/explode")


def test_api_when_below_enterprise_prefix_then_the_same(stage: Stage) -> None:
    with stage.client() as http:
        assert http.get(f"/api/v3/repos/{REPO}").json()["id"] == stage.repo["id"]
        assert (
            http.post("/api/graphql", json={"query": "{viewer{login}}"}).json()["data"]["viewer"]["login"]
            == "issuewright"
        )


def start(tmp_path: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "simulators", "github", "--dir", str(tmp_path / "sim")]
    return subprocess.Popen([*command, "--ready-file", str(tmp_path / "ready.json"), *options])


def wait_for_file(path: Path) -> dict[str, object]:
    deadline = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    found: dict[str, object] = json.loads(path.read_text())
    return found


def test_process_when_started_then_ready_file_and_clean_end(tmp_path: Path) -> None:
    process = start(tmp_path)
    try:
        ready = wait_for_file(tmp_path / "ready.json")
        assert ready["pid"] == process.pid
        with Control(str(ready["url"])) as control:
            control.create_user("alice")
            assert [one["login"] for one in control.state()["users"]] == ["alice"]
    finally:
        process.terminate()
        assert process.wait(10) in (0, -15)


@pytest.mark.skipif(sys.platform != "linux", reason="needs PR_SET_PDEATHSIG")
def test_process_when_its_parent_is_killed_then_it_ends(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-m", "tests.simulators.github.parent", str(tmp_path)])
    try:
        ready = wait_for_file(tmp_path / "ready.json")
        parent.kill()
        parent.wait(10)
        deadline = time.monotonic() + 10
        while Path(f"/proc/{ready['pid']}/cmdline").exists() and b"simulators" in read(ready["pid"]):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        parent.kill()


def read(pid: object) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_command_when_name_is_unknown_then_usage(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "simulators", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "github" in done.stderr
