"""Everything that runs is killed in the middle of the work, and the machines' owner acts meanwhile: no machine stays, no
check run stays open, no commit is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.faults import kill_in_sandbox
from tests.flow.combination import chosen_servers
from tests.flow.repository import Repository
from tests.flow.test_interference import bash
from tests.flow.world import World

HOUR_S = 3600
_KEPT = """
    select a.name from artifact a join sandbox s on s.id = a.sandbox_id join spec p on p.id = s.spec_id
    where p.repo_id = ? and a.current and a.name in ('checkpoint.bundle', 'transcript.tar.gz')
"""


@pytest.fixture(scope="module")
def world(provider: str, on_servers: bool) -> Iterator[World]:
    """A product of its own: what is killed here must not be missed elsewhere."""
    if provider == "process":
        pytest.skip("what is killed with a plain process is more than a sandbox")
    with chosen_servers(on_servers) as servers, World.running(provider, servers) as own:
        yield own


def start_kept(world: World, name: str) -> tuple[Repository, int]:
    """An agent that has written before.txt and waits at the gate NAME; the app has its work and its session so far."""
    kit = world.repository()
    world.script(
        name,
        [
            bash("echo before > before.txt"),
            bash("echo after > after.txt", gate=name),
            {"text": "Never said."},
        ],
        on_message=[
            {"match": "new one", "steps": [bash("echo again > again.txt"), {"text": "All are there."}]}
        ],
    )
    number = kit.start(name)
    kit.wait_gate(name)
    world.wait(lambda: len(world.rows(_KEPT, kit.id)) == 2, "the work kept mid-round")
    return kit, number


def assert_nothing_is_lost_or_left(world: World, kit: Repository, number: int, name: str) -> None:
    pull = kit.pull()
    assert not pull["draft"]
    assert kit.changed() == ["again.txt", "before.txt"], "from the checkpoint, then on in the same session"
    assert "Done" in kit.status(number)
    checks = kit.checks()
    assert checks.pop(pull["head"]["sha"]) == "success"
    assert set(checks.values()) <= {"neutral"}
    asked = world.model.get("/_sim/requests", params={"scenario": name}).json()["requests"]
    assert "before.txt" in json.dumps(asked[-1]["body"]), "the next agent remembers what the first one did"
    rows = world.rows(
        "select s.removed_at, s.session_id from sandbox s join spec p on p.id = s.spec_id where p.repo_id = ?",
        kit.id,
    )
    assert len(rows) == 2
    assert None not in [row["removed_at"] for row in rows]
    assert len({row["session_id"] for row in rows}) == 1
    if world.has_daytona:
        world.wait(lambda: not world.daytona.live(), "the end of all machines")


def test_payload_killed_mid_round_then_the_next_sandbox_has_its_work_and_its_session(world: World) -> None:
    kit, number = start_kept(world, "killed-payload")
    kill_in_sandbox(world, "payload")
    kit.rest()
    assert_nothing_is_lost_or_left(world, kit, number, "killed-payload")


def test_all_of_it_away_for_an_hour_on_daytona_then_nothing_is_lost_and_no_machine_is_left(
    world: World,
) -> None:
    if not world.has_daytona:
        pytest.skip("only the simulated Daytona has a clock that can be moved")
    kit, number = start_kept(world, "away-for-an-hour")
    assert world.up is not None
    children = world.children()
    world.up.kill()
    world.up.wait()
    world.wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children.values()), "their end")
    world.daytona.do("clock/advance", seconds=HOUR_S)
    world.wait(
        lambda: "started" not in [one["state"] for one in world.daytona.machines()], "machines that stop idle"
    )
    world.start_up()
    kit.rest()
    assert_nothing_is_lost_or_left(world, kit, number, "away-for-an-hour")
