"""While the worker stands still at a named point another process dies: web, Redis, or one inside the sandbox."""

from __future__ import annotations

import time

import pytest

from tests.crash.faults import armed, go_on, kill_in_sandbox, kill_part, restart, settle, stands_still
from tests.crash.report import note
from tests.crash.test_sweep import DONE, STEPS, assert_one_of_each, points_of
from tests.crash.test_web_killed import send_again
from tests.flow.test_interference import bash
from tests.flow.world import World

pytestmark = pytest.mark.crash

VICTIMS = ("web", "redis")


@pytest.mark.parametrize("first", [0, 1], ids=VICTIMS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_web_and_redis_killed_by_turns_at_points_of_a_delivering_run(
    world: World, when: str, first: int, request: pytest.FixtureRequest
) -> None:
    points = points_of((*STEPS, *DONE), when)
    restart(world, "")
    kit = world.repository()
    restart(world, armed(points, "stop"))
    number = kit.start("edit_readme")
    done: list[tuple[str, str]] = []
    while len(done) < len(points):
        reached = {point for point, _ in done}
        point = world.wait(
            lambda reached=reached: next(iter(world.crashed() - reached), None), "a next point"
        )
        victim = VICTIMS[(len(done) + first) % 2]
        pid = stands_still(world, point)
        kill_part(world, victim)
        go_on(pid)
        done.append((point, victim))
    send_again(world, kit)
    settled_s = settle(world, kit)
    assert_one_of_each(kit, number)
    for point, victim in done:
        note(request, point, f"{victim} killed", reached=1, settled_s=settled_s)


INSIDE = {
    "keeper": ("sandbox.after", "watch.before"),
    "payload": ("watch.after",),
    "agent": ("watch.before",),
}
"""A sandbox that is lost, or whose agent is killed, costs one of three attempts."""


@pytest.mark.parametrize("part", sorted(INSIDE))
def test_process_of_a_sandbox_killed_while_the_worker_stands_at_a_point(
    world: World, part: str, request: pytest.FixtureRequest
) -> None:
    points = INSIDE[part]
    restart(world, armed(points, "stop"))
    kit = world.repository()
    script = f"crash-{part}"
    world.script(script, [bash("echo more >> README.md", gate=script), {"text": "Done."}])
    number = kit.start(script)
    for point in points:
        pid = stands_still(world, point)
        try:
            kill_in_sandbox(world, part)
        finally:
            go_on(pid)
    world.open_gate(script)
    settled_s = settle(world, kit)
    assert_one_of_each(kit, number)
    for point in points:
        note(request, point, f"{part} killed", reached=1, settled_s=settled_s)


def test_agent_killed_after_it_has_changed_a_file_keeps_the_change(
    world: World, request: pytest.FixtureRequest
) -> None:
    restart(world, "")
    kit = world.repository()
    script = "crash-agent-late"
    world.script(script, [bash("echo more >> README.md"), bash("true", gate=script), {"text": "Done."}])
    number = kit.start(script)
    kit.wait_gate(script)
    kill_in_sandbox(world, "agent")
    killed_at = time.time()
    world.open_gate(script)
    settled_s = settle(world, kit, faulted_at=killed_at)
    assert kit.changed() == ["README.md"]
    assert len(kit.pulls()) == 1
    assert kit.status(number)
    note(request, "while the model answers", "agent killed", reached=1, settled_s=settled_s)
