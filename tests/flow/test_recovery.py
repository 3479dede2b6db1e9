"""Everything that runs is killed in the middle of the work, and the machines' owner acts meanwhile: no machine stays, no
check run stays open, no commit is lost.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.faults import armed, kill_in_sandbox
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
    kill_all_of_it(world)
    pass_an_hour(world)
    world.start_up()
    kit.rest()
    assert_nothing_is_lost_or_left(world, kit, number, "away-for-an-hour")


def kill_all_of_it(world: World) -> None:
    assert world.up is not None
    children = world.children()
    world.up.kill()
    world.up.wait()
    world.wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children.values()), "their end")


def pass_an_hour(world: World) -> None:
    world.daytona.do("clock/advance", seconds=HOUR_S)
    world.wait(
        lambda: "started" not in [one["state"] for one in world.daytona.machines()], "machines that stop idle"
    )


def live_machine(world: World) -> Path:
    """The files of the one machine there is, as this host has them."""
    machines = [one for one in world.daytona.machines() if one["state"] == "started"]
    assert len(machines) == 1
    return world.home / "daytona" / str(machines[0]["id"]) / "home"


def start_alone(world: World, name: str, then_in_tool: str = "") -> tuple[Repository, int, Path]:
    """An agent on Daytona whose only tool writes late.txt once the product, which is killed here, is away. Its machine's
    home, too.
    """
    kit = world.repository()
    waits = "until [ -e ../../away ]; do sleep 0.1; done; echo late > late.txt"
    world.script(
        name,
        [bash(f"touch ../../begun; {waits}{then_in_tool}"), {"text": "Done."}],
        on_message=[
            {"match": "new one", "steps": [bash("echo again > again.txt"), {"text": "All are there."}]}
        ],
    )
    number = kit.start(name)
    world.wait(lambda: any(world.home.glob("daytona/*/home/begun")), "the tool running")
    home = live_machine(world)
    kill_all_of_it(world)
    (home / "away").touch()
    return kit, number, home


def holds_in_machine(home: Path, bundle: str, file: str) -> bool:
    """Whether the newest work that lies ready in the machine has the file."""
    return holds(home / "issuewright" / "state" / bundle, home / "issuewright" / "workspace", file)


def holds(place: Path, tree: Path, file: str) -> bool:
    """Whether the bundle, of commits on those of the tree, has the file."""
    if not place.exists():
        return False
    git = ["git", "-c", "safe.directory=*", "-C", str(tree)]
    head = subprocess.run(
        [*git, "bundle", "list-heads", str(place)], check=True, capture_output=True, text=True
    )
    names = [*git, "ls-tree", "--name-only", head.stdout.split()[0]]
    return file in subprocess.run(names, check=True, capture_output=True, text=True).stdout.split()


def assert_what_it_did_alone_counts(world: World, kit: Repository, number: int, name: str) -> None:
    assert kit.changed() == ["again.txt", "late.txt"], "what nobody had heard of, then on in the same session"
    assert not kit.pull()["draft"]
    assert "Done" in kit.status(number)
    asked = world.model.get("/_sim/requests", params={"scenario": name}).json()["requests"]
    assert "late.txt" in json.dumps(asked[-1]["body"]), "the next agent remembers what the first one did"
    world.wait(lambda: not world.daytona.live(), "the end of all machines")


def test_agent_on_daytona_worked_on_alone_and_was_stopped_then_its_work_is_fetched_from_its_machine(
    world: World,
) -> None:
    if not world.has_daytona:
        pytest.skip("only Daytona stops machines, and keeps their files")
    name = "worked-on-alone"
    kit, number, home = start_alone(world, name, "; sleep 600")
    world.wait(lambda: holds_in_machine(home, "kept.bundle", "late.txt"), "the work lying ready")
    pass_an_hour(world)
    world.forget_crashes()
    world.start_up(CRASH_POINTS=armed(("left.before", "left.after")))
    kit.rest()
    assert world.crashed() == {"left.before", "left.after"}, (
        "its worker was killed right before and right after"
    )
    assert_what_it_did_alone_counts(world, kit, number, name)


def test_agent_of_this_host_worked_on_alone_and_was_killed_then_its_work_is_fetched_from_its_directory(
    world: World,
) -> None:
    if world.has_daytona:
        pytest.skip("of sandboxes on this host")
    kit, name = world.repository(), "worked-on-alone-here"
    world.script(
        name,
        [
            bash("touch ~/begun; until [ -e ~/away ]; do sleep 0.1; done; echo late > late.txt; sleep 600"),
            {"text": "Done."},
        ],
        on_message=[
            {"match": "new one", "steps": [bash("echo again > again.txt"), {"text": "All are there."}]}
        ],
    )
    number = kit.start(name)
    world.wait(lambda: any(world.home.glob("state/sandboxes/*/home/begun")), "the tool running")
    (begun,) = world.home.glob("state/sandboxes/*/home/begun")
    kill_all_of_it(world)
    begun.with_name("away").touch()
    place = begun.parent.parent
    world.wait(
        lambda: holds(place / "state" / "kept.bundle", place / "work", "late.txt"), "the work lying ready"
    )
    kill_in_sandbox(world, "payload")
    world.start_up()
    kit.rest()
    assert kit.changed() == ["again.txt", "late.txt"]
    assert "Done" in kit.status(number)
