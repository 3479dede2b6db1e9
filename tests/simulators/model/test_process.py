"""The simulator as a process of its own."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from simulators.model.server import main

Start = Callable[..., subprocess.Popen[bytes]]
COMMAND = [sys.executable, "-m", "simulators", "model", "--api-key", "k"]
# A parent that starts what it is told to and then waits to be killed.
PARENT = "import subprocess, sys; subprocess.Popen(sys.argv[1:]); sys.stdin.read()"


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def run(*command: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def reachable(url: str) -> bool:
    try:
        return httpx.get(f"{url}/_sim/health").status_code == 200
    except httpx.TransportError:
        return False


def test_ready_file_tells_the_address_and_sigterm_ends_it(start: Start, tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    process = start(*COMMAND, "--port", "0", "--ready-file", str(ready), "--default", "no_changes")
    wait_for(ready.exists)
    told = json.loads(ready.read_text())
    assert told["pid"] == process.pid
    assert httpx.get(f"{told['url']}/_sim/health").json()["default"] == "no_changes"
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) in {0, -signal.SIGTERM}
    assert [path.name for path in tmp_path.iterdir()] == ["ready.json"]


def test_parent_killed_takes_the_simulator_along(start: Start, tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    parent = start(sys.executable, "-c", PARENT, *COMMAND, "--ready-file", str(ready), "--parent-pid-watch")
    wait_for(ready.exists)
    url = json.loads(ready.read_text())["url"]
    assert reachable(url)
    parent.kill()
    wait_for(lambda: not reachable(url))


def test_bad_usage_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--api-key", "k", "--default", "nothing"]) == 2
    assert "no scenario named nothing" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2


def test_taken_port_ends_with_1(start: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ready = tmp_path / "ready.json"
    start(*COMMAND, "--ready-file", str(ready))
    wait_for(ready.exists)
    assert main(["--api-key", "k", "--port", str(json.loads(ready.read_text())["port"])]) == 1
    assert "cannot listen" in capsys.readouterr().err
