"""The worker is killed at every named point of a run; the run ends as if nothing had happened."""

from __future__ import annotations

import pytest

from app.domain.steps import StepName
from tests.flow.repository import Repository
from tests.flow.world import World
from worker.crashpoints import POINTS

pytestmark = pytest.mark.crash

PER_RUN = 6

DELIVERED = ("admit", "branch", "provision", "collect", "publish", "review", "start_commit", "ref", "open_pull", "pull",
             "status", "check", "sandbox", "push", "body", "ready", "commit", "release", "intake")  # fmt: skip
"""What a run that delivers passes through. The others have runs of their own below."""


def groups() -> list[tuple[str, ...]]:
    """All points of a delivering run, a few per run: each kills once, the next one meets the worker after it."""
    points = sorted(point for point in POINTS if point.rsplit(".", 1)[0] in DELIVERED)
    count = -(-len(points) // PER_RUN)
    return [tuple(points[start::count]) for start in range(count)]


def restart(world: World, points: tuple[str, ...]) -> None:
    """The product anew, with these points armed to kill."""
    assert world.up is not None
    world.up.terminate()
    world.up.wait(timeout=60)
    world.forget_crashes()
    world.start_up(CRASH_POINTS=",".join(f"{point}=kill" for point in points))


def assert_one_of_each(kit: Repository, number: int, *, merged_work: bool = True) -> None:
    pulls = kit.pulls()
    assert len(pulls) == 1
    assert len([text for text in kit.comments(number) if "part=status" in text]) == 1
    assert None not in kit.checks().values()  # fails by itself when a head has two
    if merged_work:
        assert kit.branches() == {"main", pulls[0]["head"]["ref"]}
        assert kit.changed() == ["README.md"]
        assert "Done" in kit.status(number)
        assert not pulls[0]["draft"]


@pytest.mark.parametrize("points", groups(), ids=",".join)
def test_worker_killed_at_points_of_a_delivering_run(world: World, points: tuple[str, ...]) -> None:
    restart(world, points)
    kit = world.repository()
    number = kit.run("edit_readme")
    assert world.crashed() == set(points)
    assert_one_of_each(kit, number)


def test_worker_killed_while_it_watches_a_running_agent(world: World) -> None:
    points = ("watch.before", "watch.after")
    restart(world, points)
    kit = world.repository({"README.md": "# Kit\n"})
    write = {"name": "Bash", "input": {"command": "echo more >> README.md"}}
    world.script("crash-watch", [{"tool_use": [write], "gate": "crash-watch"}, {"text": "Done."}])
    number = kit.start("crash-watch")
    world.wait(lambda: world.crashed() == set(points), "both deaths")
    world.open_gate("crash-watch")
    kit.rest()
    assert_one_of_each(kit, number)


def test_worker_killed_while_it_withdraws_a_run_without_changes(world: World) -> None:
    points = ("conclude.before", "close.before", "close.after", "delete.before", "delete.after", "concluded.before",
              "conclude.after")  # fmt: skip
    restart(world, points)
    kit = world.repository()
    number = kit.run("no_changes")
    assert world.crashed() == set(points)
    assert_one_of_each(kit, number, merged_work=False)
    assert kit.branches() == {"main"}
    assert kit.pull()["state"] == "closed"
    assert "Nothing to change" in kit.status(number)


def test_worker_killed_while_it_cancels(world: World) -> None:
    points = ("cancel.before", "cancel.after")
    restart(world, points)
    kit = world.repository()
    world.script(
        "crash-cancel",
        [{"tool_use": [{"name": "Bash", "input": {"command": "true"}}], "gate": "crash-cancel"}],
    )
    number = kit.start("crash-cancel")
    kit.wait_gate("crash-cancel")
    kit.unlabel(number)
    kit.rest()
    assert world.crashed() == set(points)
    assert_one_of_each(kit, number, merged_work=False)
    assert "Cancelled" in kit.status(number)


def test_worker_killed_while_it_makes_labels_and_refuses_a_stranger(world: World) -> None:
    points = tuple(sorted(point for point in POINTS if point.startswith("effect.")))
    restart(world, points)
    kit = world.new_repository()
    kit.install()
    world.wait(lambda: len(kit.labels_made()) == 4, "the labels")
    number = kit.start("edit_readme", label_by="bob")
    world.wait(lambda: kit.comments(number), "the notice")
    kit.rest()
    assert world.crashed() == set(points)
    assert len(kit.comments(number)) == 1
    assert kit.pulls() == []


def test_every_point_has_a_run() -> None:
    elsewhere = {
        "watch",
        "conclude",
        "close",
        "delete",
        "concluded",
        "cancel",
        "effect.labels",
        "effect.notice",
    }
    lease = {"lease"}  # renewed every 30 s: no run here lasts that long; tests/worker stops a worker instead
    assert {point.rsplit(".", 1)[0] for point in POINTS} == {*DELIVERED, *elsewhere, *lease}
    assert set(StepName) <= {*DELIVERED, *elsewhere}
