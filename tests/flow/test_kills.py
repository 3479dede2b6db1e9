"""kill -9 in the middle of a run: the work goes on, nothing is lost, nothing is there twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.crash.faults import kill_in_sandbox
from tests.flow.combination import chosen_servers
from tests.flow.repository import Repository
from tests.flow.test_interference import start_held
from tests.flow.world import World


@pytest.fixture(scope="module")
def world(provider: str, on_servers: bool) -> Iterator[World]:
    """A product of its own: what is killed here must not be missed elsewhere."""
    with chosen_servers(on_servers) as servers, World.running(provider, servers) as own:
        yield own


def assert_done_once(
    kit: Repository, number: int, changed: Sequence[str] = ("after.txt", "before.txt")
) -> None:
    pulls = kit.pulls()
    assert len(pulls) == 1
    assert not pulls[0]["draft"]
    assert kit.branches() == {"main", pulls[0]["head"]["ref"]}
    assert kit.changed() == list(changed)
    assert len([text for text in kit.comments(number) if "part=status" in text]) == 1
    assert "Done" in kit.status(number)
    assert sorted(map(str, kit.checks().values())) == ["neutral", "success"]


@pytest.mark.parametrize("part", ["web", "worker", "redis"])
def test_part_killed_mid_run_comes_back_and_the_run_ends_in_the_same_pull_request(
    world: World, part: str
) -> None:
    gate = f"killed-{part}"
    kit, number = start_held(world, gate)
    kit.wait_gate(gate)
    pull = kit.pull()["number"]
    if part == "redis" and world.servers is not None:
        world.servers.redis.kill()
        world.servers.redis.start()
    else:
        victim = world.children()[part]
        os.kill(victim, signal.SIGKILL)
        world.wait(lambda: world.children().get(part) not in {None, victim}, f"another {part}")
    world.open_gate(gate)
    kit.rest()
    assert kit.pull()["number"] == pull
    assert_done_once(kit, number)


def test_everything_killed_mid_run_and_started_again_goes_on_with_the_same_sandbox(
    world: World, provider: str
) -> None:
    if provider == "process":
        pytest.skip("only the isolated sandbox outlives everything else")
    kit, number = start_held(world, "killed-all")
    kit.wait_gate("killed-all")
    assert world.up is not None
    children = world.children()
    world.up.kill()
    world.up.wait()
    world.wait(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children.values()), "their end")
    world.start_up()
    world.open_gate("killed-all")
    kit.rest()
    assert_done_once(kit, number)
    made = world.rows(
        "SELECT attempt FROM sandbox s JOIN spec p ON p.id = s.spec_id WHERE p.repo_id = ?", kit.id
    )
    assert [row["attempt"] for row in made] == [1]


def test_agents_process_killed_mid_run_then_another_sandbox_ends_the_work(
    world: World, provider: str
) -> None:
    if provider == "process":
        pytest.skip("there is one agent, however it is isolated")
    kit, number = start_held(world, "killed-agent")
    kit.wait_gate("killed-agent")
    kill_in_sandbox(world, "agent")
    world.open_gate("killed-agent")
    kit.rest()
    assert_done_once_but_for_heads(kit, number)
    made = world.rows(
        "SELECT attempt, s.reason FROM sandbox s JOIN spec p ON p.id = s.spec_id WHERE p.repo_id = ?"
        " ORDER BY attempt",
        kit.id,
    )
    assert [(row["attempt"], row["reason"]) for row in made] == [(1, "cli_killed"), (2, None)]


def assert_done_once_but_for_heads(kit: Repository, number: int) -> None:
    """What the first agent had done moved the head once more."""
    assert len(kit.pulls()) == 1
    assert not kit.pulls()[0]["draft"]
    assert "Done" in kit.status(number)
    conclusions = sorted(map(str, kit.checks().values()))
    assert conclusions[-1] == "success"
    assert set(conclusions[:-1]) == {"neutral"}
