"""kill -9 in the middle of a run: the work goes on, nothing is lost, nothing is there twice."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

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
    if provider != "bubblewrap":
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


def _agents_below(home: Path) -> list[int]:
    """The agents' own processes in the sandboxes of that state directory."""
    kept = str(home / "state" / "sandboxes").encode()
    commands = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            status = dict(
                line.split(":\t", 1) for line in (path / "status").read_text().splitlines() if ":\t" in line
            )
            commands[int(path.name)] = ((path / "cmdline").read_bytes(), int(status["PPid"]))

    def is_ours(pid: int) -> bool:
        while pid in commands:
            command, parent = commands[pid]
            if b"app.sandbox.keeper" in command and kept in command:
                return True
            pid = parent
        return False

    return [pid for pid, (command, _) in commands.items() if b"stream-json" in command and is_ours(pid)]


def test_agents_process_killed_mid_run_then_another_sandbox_ends_the_work(
    world: World, provider: str
) -> None:
    if provider != "bubblewrap":
        pytest.skip("there is one agent, however it is isolated")
    kit, number = start_held(world, "killed-agent")
    kit.wait_gate("killed-agent")
    for victim in world.wait(lambda: _agents_below(world.home), "the agent"):
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
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
