"""Five points, of different kinds, on PostgreSQL and an external Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.faults import armed, restart, settle
from tests.crash.report import note
from tests.crash.test_sweep import assert_one_of_each
from tests.flow.combination import running_servers
from tests.flow.world import World

pytestmark = [pytest.mark.crash, pytest.mark.needs_postgres, pytest.mark.needs_redis]

SAMPLED = ("intake.after", "open_pull.after", "sandbox.after", "push.after", "release.before")


@pytest.fixture
def world(provider: str) -> Iterator[World]:
    with running_servers() as servers, World.running(provider, servers) as own:
        yield own


def test_worker_killed_at_sampled_points_on_another_database_and_redis(
    world: World, request: pytest.FixtureRequest
) -> None:
    restart(world, armed(SAMPLED))
    kit = world.repository()
    number = kit.start("edit_readme")
    settled_s = settle(world, kit)
    assert world.crashed() == set(SAMPLED)
    assert_one_of_each(kit, number)
    for point in SAMPLED:
        note(request, point, "worker killed (combination)", reached=1, settled_s=settled_s)
