"""A worker that sleeps past its lease, a Redis that is emptied or silent, a database that refuses, answers that lie."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.crash.faults import (
    armed,
    database_refusing,
    flush_redis,
    go_on,
    restart,
    settle,
    stands_still,
    within_limit,
)
from tests.crash.report import note
from tests.crash.test_sweep import assert_one_of_each
from tests.crash.test_web_killed import send_again
from tests.flow.test_interference import bash
from tests.flow.world import World

pytestmark = pytest.mark.crash

LEASE_S = 4
AWAY_S = 12.0
REFUSED_S = 20.0
FAULT_STATUS = 502


@pytest.mark.parametrize("point", ["start_commit.after", "open_pull.before", "push.before", "commit.before"])
def test_worker_asleep_for_longer_than_its_lease_finds_its_work_done_by_another(
    world: World, point: str, request: pytest.FixtureRequest
) -> None:
    restart(world, armed([point], "stop"), LEASE_S=str(LEASE_S))
    kit = world.repository()
    began = time.monotonic()
    number = kit.start("edit_readme")
    sleeper = stands_still(world, point)
    other = world.spawn("other-worker", ["app", "worker"], world.environment | {"LEASE_S": str(LEASE_S)})
    try:
        settled_s = settle(world, kit)
        world.wait(lambda: time.monotonic() - began > LEASE_S + 1, "the end of the lease")
        assert sleeper == stands_still(world, point), "it still sleeps"
        before = len(kit.writes())
        go_on(sleeper)
        kit.poke()
        assert_one_of_each(kit, number)
        assert len(kit.writes()) <= before + 1, (
            "at most the one write it slept before, onto what is there already"
        )
    finally:
        go_on(sleeper)
        other.terminate()
        other.wait(timeout=45)
    note(request, point, "worker asleep past its lease", reached=1, settled_s=settled_s)


def test_redis_emptied_at_several_moments(world: World, request: pytest.FixtureRequest) -> None:
    points = ("intake.after", "branch.after", "sandbox.before", "watch.after", "push.after", "review.before")
    restart(world, "")
    kit = world.repository()
    restart(world, armed(points, "stop"))
    number = kit.start("edit_readme")
    seen: set[str] = set()
    while seen != set(points):
        point = world.wait(lambda: next(iter(world.crashed() - seen), None), "a next point")
        pid = stands_still(world, point)
        flush_redis(world)
        go_on(pid)
        seen.add(point)
    settled_s = settle(world, kit)
    assert_one_of_each(kit, number)
    for point in points:
        note(request, point, "Redis emptied", reached=1, settled_s=settled_s)


def test_redis_silent_for_a_while(world: World, request: pytest.FixtureRequest) -> None:
    restart(world, "")
    kit = world.repository()
    redis = world.children()["redis"]
    os.kill(redis, signal.SIGSTOP)
    silent_at = time.monotonic()
    try:
        number = kit.start("edit_readme")
        world.wait(lambda: time.monotonic() - silent_at > AWAY_S, "the end of the silence")
    finally:
        go_on(redis)
    settled_s = settle(world, kit, faulted_at=time.time())
    assert_one_of_each(kit, number)
    note(request, "a whole run", f"Redis silent {AWAY_S:.0f} s", reached=1, settled_s=settled_s)


def test_database_that_refuses_writes_for_twenty_seconds(
    world: World, request: pytest.FixtureRequest
) -> None:
    restart(world, "")
    kit = world.repository()
    script = "crash-refused"
    world.script(script, [bash("echo more >> README.md", gate=script), {"text": "Done."}])
    number = kit.start(script)
    kit.wait_gate(script)
    with database_refusing(world):
        refused_at = time.monotonic()
        world.open_gate(script)
        world.github.comment(kit.name, number, "carol", "Said while nothing could be stored.")
        world.wait(lambda: time.monotonic() - refused_at > REFUSED_S, "the end of the refusal")
    ended_at = time.time()
    send_again(world, kit)
    settled_s = settle(world, kit, faulted_at=ended_at)
    assert_one_of_each(kit, number)
    note(request, "while the agent works", "database refuses 20 s", reached=1, settled_s=settled_s)


def test_every_write_to_github_is_done_and_answered_with_502_once(
    world: World, request: pytest.FixtureRequest
) -> None:
    restart(world, "")
    kit = world.repository()
    paths = ("git/commits", "git/refs", "pulls", "issues/[0-9]+/comments", "check-runs", "check-runs/[0-9]+",
             "issues/comments/[0-9]+", "pulls/[0-9]+", "git-receive-pack")  # fmt: skip
    for path in paths:
        world.github.add_fault(
            method="WRITE", path=f"{kit.name}.*/{path}$", apply=True, status=FAULT_STATUS, times=1
        )
    world.github.add_fault(method="POST", path="graphql$", apply=True, status=FAULT_STATUS, times=1)
    try:
        number = kit.start("edit_readme")
        kit.rest()
        rested_at = time.monotonic()  # of this machine, as the simulator's log has it
        refused = [one["at"] for one in world.github.requests() if one["status"] == FAULT_STATUS]
        settled_s = within_limit(rested_at - max(refused))
    finally:
        hits = world.github.clear_faults()
    assert_one_of_each(kit, number)
    note(request, "every write", "done, then 502", reached=sum(hits.values()), settled_s=settled_s)
