"""A payload that is started before there is work for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandbox_payload.wire import ExitCode
from tests.payload.conftest import SandboxMaker
from tests.payload.sandbox import eventually
from tests.payload.steps import say

TURN = [say("Done.")]


def _has_loaded(pid: int) -> bool:
    """The agent's SDK brings compiled modules, which stand in the process's map."""
    return "pydantic_core" in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks at /proc")
def test_held_payload_loads_before_its_work_is_there_and_does_it_when_it_is_let_go(
    sandbox: SandboxMaker,
) -> None:
    one = sandbox([TURN], held=True)
    one.start_sha = "none yet"
    (one.folder / "inputs").mkdir()
    (one.folder / "home").mkdir()
    one.workspace.mkdir()
    one.start()
    assert one.process is not None
    eventually(lambda: _has_loaded(one.process.pid if one.process else 0))
    assert one.app.types() == []

    (one.folder / "inputs").rmdir()
    (one.folder / "home").rmdir()
    one.prepare()
    one.let_go(json.dumps({"ANTHROPIC_BASE_URL": f"{one.model_url}/s/{one.scenario}"}).encode())

    assert one.wait() == ExitCode.OK
    assert "agent.completed" in one.app.types()


@pytest.mark.parametrize("told", [b"", b'{"HALF": ', b"[]"])
def test_held_payload_whose_host_ends_does_nothing(sandbox: SandboxMaker, told: bytes) -> None:
    one = sandbox([TURN], held=True).start()

    one.let_go(told)

    assert one.wait() == ExitCode.BAD_INPUTS
    assert "never let go" in one.output()
    assert one.app.types() == []
