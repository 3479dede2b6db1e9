"""The main job with its agents on a simulated Daytona, through the real SDK, while an answer of it gets lost."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.flow.simulated_daytona import DAYTONA_KEY
from tests.flow.world import World


@pytest.fixture(scope="module")
def remote_world() -> Iterator[World]:
    with World.running("daytona") as world:
        yield world


def test_labeled_issue_is_built_on_daytona_and_leaves_no_machine_and_no_secret(remote_world: World) -> None:
    daytona = remote_world.daytona
    daytona.do("faults/add", method="POST", path="/api/sandbox$", times=1, drop=True, apply=True)
    kit = remote_world.repository({"README.md": "# Kit\n"})
    number = kit.run("binomial")
    pull = kit.pull()
    assert not pull["draft"]
    assert kit.changed() == ["binomial.py", "tests/test_binomial.py"]
    assert "126410606437752" in pull["body"]
    assert kit.checks()[pull["head"]["sha"]] == "success"
    assert "Done: ready for review" in kit.status(number)

    remote_world.wait(lambda: not daytona.live(), "the end of all machines")
    machines = daytona.machines()
    assert len(machines) == 1
    shown = json.dumps(machines)
    logs = "".join(path.read_text() for path in (remote_world.home / "logs").glob("*.log"))
    for secret in (*remote_world.secrets.values(), DAYTONA_KEY, "iws_"):
        assert secret not in shown
    for secret in (*remote_world.secrets.values(), DAYTONA_KEY):
        assert secret not in logs
