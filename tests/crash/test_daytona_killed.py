"""Five points, of different kinds, while the agents work on a simulated Daytona: whatever dies, one machine is paid for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.faults import armed, restart, settle
from tests.crash.fleet import Fleet
from tests.crash.report import note
from tests.crash.test_sweep import assert_one_of_each

pytestmark = [pytest.mark.crash, pytest.mark.needs_bubblewrap]

SAMPLED = ("sandbox.before", "sandbox.after", "mirror.after", "push.after", "commit.after")


@pytest.fixture
def world() -> Iterator[Fleet]:
    with Fleet.running("daytona") as own:
        yield own


def test_worker_killed_at_sampled_points_then_one_machine_did_the_work_and_is_gone(
    world: Fleet, request: pytest.FixtureRequest
) -> None:
    restart(world, armed(SAMPLED))
    kit = world.repository()
    number = kit.start("edit_readme")
    settled_s = settle(world, kit)
    assert world.crashed() == set(SAMPLED)
    assert_one_of_each(kit, number)
    world.wait(lambda: not world.daytona.live(), "the end of all machines")
    assert len(world.daytona.machines()) == 1
    for point in SAMPLED:
        note(request, point, "worker killed (Daytona)", reached=1, settled_s=settled_s)
