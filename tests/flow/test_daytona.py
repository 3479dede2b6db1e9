"""The main job with its agents on a simulated Daytona, through the real SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulators.daytona.server import running
from simulators.daytona.simulator import DaytonaSimulator
from tests.flow.world import World

KEY = "dtncanary0123456789"


@pytest.fixture(scope="module")
def daytona(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaytonaSimulator]:
    directory: Path = tmp_path_factory.mktemp("daytona")
    with running(directory, KEY) as simulator:
        yield simulator


@pytest.fixture(scope="module")
def remote_world(daytona: DaytonaSimulator) -> Iterator[World]:
    named = {"DAYTONA_API_URL": f"{daytona.world.base_url}/api", "DAYTONA_TARGET": "local"}
    with World.running("daytona", DAYTONA_API_KEY=KEY, **named) as world:
        yield world


def test_labeled_issue_is_built_on_daytona_and_leaves_no_machine_and_no_secret(
    remote_world: World, daytona: DaytonaSimulator
) -> None:
    lost = {"method": "POST", "path": "/api/sandbox$", "times": 1, "drop": True, "apply": True}
    remote_world.app.post(f"{daytona.world.base_url}/_sim/faults/add", json=lost).raise_for_status()
    kit = remote_world.repository({"README.md": "# Kit\n"})
    number = kit.run("binomial")
    pull = kit.pull()
    assert not pull["draft"]
    assert kit.changed() == ["binomial.py", "tests/test_binomial.py"]
    assert "126410606437752" in pull["body"]
    assert kit.checks()[pull["head"]["sha"]] == "success"
    assert "Done: ready for review" in kit.status(number)

    machines = daytona.world.machines
    remote_world.wait(
        lambda: all(one.state == "destroyed" for one in machines.values()), "the end of all machines"
    )
    assert len(machines) == 1
    shown = json.dumps([one.shown() for one in machines.values()])
    logs = "".join(path.read_text() for path in (remote_world.home / "logs").glob("*.log"))
    for secret in (*remote_world.secrets.values(), KEY, "iws_"):
        assert secret not in shown
    for secret in (*remote_world.secrets.values(), KEY):
        assert secret not in logs
