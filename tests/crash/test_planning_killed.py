"""Processes are killed while a plan is made, shown, approved, and its parallel results are merged."""

from __future__ import annotations

import time

import pytest

from sandbox_payload.wire.plan import AGENT_PHASES
from tests.crash.faults import kill_in_sandbox, kill_part, restart, settle, within_limit
from tests.crash.planned import (
    SIDE_BY_SIDE,
    assert_each_phase_handed_in_once,
    assert_one_plan_in_one_pull,
    finished_phases,
    held,
    merges,
    start_planned,
    wait_for_plan,
    waiting_at,
)
from tests.crash.report import note
from tests.crash.test_sweep import PLANNED
from tests.flow.repository import Repository
from tests.flow.world import World

pytestmark = pytest.mark.crash

PLANNING = ("provision", "sandbox", "watch", *PLANNED)
MERGING = ("push", "collect")
"""At the second passage, which is that of the result that comes later."""


@pytest.mark.parametrize("when", ["before", "after"])
def test_worker_killed_while_it_plans_and_merges_what_was_done_side_by_side(
    world: World, when: str, request: pytest.FixtureRequest
) -> None:
    scenario = f"crash-planned-{when}"
    arms = [f"{name}.{when}=kill" for name in PLANNING] + [f"{name}.{when}=kill@2" for name in MERGING]
    restart(world, ",".join(arms))
    kit = world.repository(SIDE_BY_SIDE)
    held(world, "plan_tasks_hold", scenario)
    number = start_planned(kit, scenario)
    short_hash = wait_for_plan(kit, number)
    world.github.comment(kit.name, number, "bob", f"/agent approve {short_hash}")  # may not: a reaction
    world.wait(lambda: f"effect.reaction.{when}" in world.crashed(), "the death at the reaction")
    world.github.comment(kit.name, number, "carol", f"/agent approve {short_hash}")
    side_by_side = [f"{scenario}-task-{key}" for key in ("T1", "T3")]
    world.wait(lambda: all(waiting_at(world, gate) for gate in side_by_side), "two tasks at once")
    for key in ("T1", "T3", "T2"):
        world.open_gate(f"{scenario}-task-{key}")
    points = {f"{name}.{when}" for name in (*PLANNING, *MERGING)}
    settled_s = settle(world, kit)
    assert world.crashed() == points
    assert_one_plan_in_one_pull(kit, number)
    assert merges(kit) == 1
    assert_each_phase_handed_in_once(world, scenario)
    for point in sorted(points):
        note(request, point, "worker killed, planned run", reached=1, settled_s=settled_s)


def test_worker_killed_while_it_makes_and_closes_the_issues_of_tasks(
    world: World, request: pytest.FixtureRequest
) -> None:
    points = [
        f"effect.{kind}.{when}" for kind in ("sub_issue", "sub_issue_end") for when in ("before", "after")
    ]
    restart(world, ",".join(f"{point}=kill" for point in points))
    kit = world.repository({"README.md": "# Kit\n", ".github/issuewright.yml": "sub_issues: true\n"})
    number = start_planned(kit, "planned", label="agent")
    world.wait(lambda: world.crashed() == set(points), "every death")
    settled_s = settle(world, kit)
    tasks = kit.world.rows(
        "select 1 from task t join spec s on s.id = t.spec_id where s.repo_id = ? and t.key != 'closing'",
        kit.id,
    )
    world.wait(
        lambda: states_of_sub_issues(kit, number) == ["closed"] * len(tasks), "the issues of all tasks"
    )
    for point in points:
        note(request, point, "worker killed, planned run with sub-issues", reached=1, settled_s=settled_s)


def states_of_sub_issues(kit: Repository, number: int) -> list[str]:
    issues = kit.world.github.repo(kit.name)["issues"]
    return [str(one["state"]) for one in issues if one["parent_number"] == number]


def kill(world: World, victim: str) -> None:
    if victim == "everything":
        for part in ("web", "worker", "redis"):
            kill_part(world, part)
        kill_in_sandbox(world, "keeper")
    elif victim == "payload":
        kill_in_sandbox(world, "payload")
    else:
        kill_part(world, victim)


def sandboxes_of(kit: Repository) -> list[str]:
    """The phase each began at."""
    rows = kit.world.rows(
        "select b.phase from sandbox b join spec s on s.id = b.spec_id where s.repo_id = ? order by b.created_at",
        kit.id,
    )
    return [str(row["phase"]) for row in rows]


VICTIMS = [
    ("payload", "worker", "everything", "worker"),
    ("worker", "payload", "worker", "everything"),
    ("everything", "worker", "payload", "worker"),
    ("worker", "everything", "worker", "payload"),
]
"""In each phase each of them once. A lost sandbox costs one of three attempts of the planning, hence two at most."""


@pytest.mark.parametrize("victims", VICTIMS, ids=",".join)
def test_something_killed_in_each_phase_then_that_phase_is_where_it_goes_on(
    world: World, victims: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    scenario = "crash-" + "-".join(victims)
    restart(world, "")
    kit = world.repository()
    held(world, "plan_hold", scenario)
    number = start_planned(kit, scenario)
    began_at = ["explore"]
    for done, (phase, victim) in enumerate(zip(AGENT_PHASES, victims, strict=True)):
        gate = f"{scenario}-plan-{phase}"
        asked = world.wait(lambda gate=gate: waiting_at(world, gate), f"the agent in {phase}")
        world.wait(lambda done=done: len(finished_phases(kit)) == done, f"{done} phases stored")
        kill(world, victim)
        killed_at = time.monotonic()
        if victim != "worker":
            began_at.append(str(phase))
            world.wait(
                lambda gate=gate, asked=asked: set(waiting_at(world, gate)) - set(asked),
                "another agent there",
            )
        world.open_gate(gate)
        world.wait(lambda done=done: len(finished_phases(kit)) > done, f"{phase} stored")
        taken_s = within_limit(time.monotonic() - killed_at)
        note(request, f"phase {phase}", f"{victim} killed", reached=1, settled_s=taken_s)
    wait_for_plan(kit, number)
    assert sandboxes_of(kit) == began_at
    assert_each_phase_handed_in_once(world, scenario)
    kit.unlabel(number, label="agent:plan")
    kit.rest()
    assert len([text for text in kit.comments(number) if "part=plan" in text]) == 1
    assert "Cancelled" in kit.status(number)
