"""The web process is killed around its own commits: what it had answered is kept, what it had not comes again."""

from __future__ import annotations

import httpx
import pytest

from app.observability.crashpoints import WEB_COMMITS, WEB_POINTS
from tests.crash.faults import armed, restart, settle
from tests.crash.report import note
from tests.crash.test_sweep import assert_one_of_each
from tests.flow.repository import Repository
from tests.flow.test_interference import bash
from tests.flow.world import World

pytestmark = pytest.mark.crash

OF_THE_AGENT = ("events", "upload", "artifact", "reserve", "settle")
OF_A_MESSAGE = ("message", "sent", "acknowledged")


def send_again(world: World, kit: Repository) -> None:
    """What failed, as GitHub is asked to by whoever runs the App; each until it is stored."""

    def all_stored() -> bool:
        attempts = [
            one for one in world.github.deliveries()
            if (one["payload"].get("repository") or {}).get("id") == kit.id
        ]  # fmt: skip
        if any(one["state"] == "sending" for one in attempts):
            return False
        stored = {one["guid"] for one in attempts if one["status_code"] == 202}
        missing = {one["guid"]: one["id"] for one in attempts if one["guid"] not in stored}
        for delivery_id in missing.values():
            world.github.redeliver(delivery_id)
        return not missing

    world.wait(all_stored, "every delivery stored")


@pytest.mark.parametrize("when", ["before", "after"])
def test_web_killed_while_a_delivery_comes_in(
    world: World, when: str, request: pytest.FixtureRequest
) -> None:
    point = f"delivery.{when}"
    restart(world, "")
    kit = world.repository()
    restart(world, armed([point]))
    number = kit.start("edit_readme")
    world.wait(lambda: world.crashed() == {point}, "the death")
    send_again(world, kit)
    settled_s = settle(world, kit)
    assert_one_of_each(kit, number)
    note(request, point, "web killed", reached=1, settled_s=settled_s)


@pytest.mark.parametrize("when", ["before", "after"])
def test_web_killed_while_an_agent_works(world: World, when: str, request: pytest.FixtureRequest) -> None:
    points = {f"{name}.{when}" for name in OF_THE_AGENT}
    restart(world, armed(points))
    kit = world.repository()
    number = kit.start("edit_readme")
    send_again(world, kit)
    world.wait(lambda: world.crashed() == points, "every death")
    send_again(world, kit)
    settled_s = settle(world, kit)
    assert_one_of_each(kit, number)
    events = world.rows(
        "select e.seq from event e join sandbox s on s.id = e.sandbox_id join spec p on p.id = s.spec_id "
        "where p.repo_id = ? order by e.seq", kit.id,
    )  # fmt: skip
    assert [row["seq"] for row in events] == list(range(1, len(events) + 1)), "none lost, none twice"
    for point in points:
        note(request, point, "web killed", reached=1, settled_s=settled_s)


def said(world: World, sandbox_id: str, message: dict[str, str]) -> bool:
    """Says it unless it is stored already: an answer that never came does not tell."""
    if world.rows("select id from message where sandbox_id = ?", sandbox_id):
        return True
    try:
        answer = world.app.post(f"/api/v1/sandboxes/{sandbox_id}/messages", json=message)
    except httpx.TransportError:
        return False
    assert answer.is_success, answer.text
    return True


@pytest.mark.parametrize("when", ["before", "after"])
def test_web_killed_while_a_message_goes_out(world: World, when: str, request: pytest.FixtureRequest) -> None:
    points = {f"{name}.{when}" for name in OF_A_MESSAGE}
    restart(world, armed(points))
    kit = world.repository()
    gate = f"crash-message-{when}"
    world.script(
        gate,
        [bash("echo before >> README.md"), bash("echo after >> README.md", gate=gate), {"text": "Done."}],
        [{"text": "Heard."}],
    )
    number = kit.start(gate)
    kit.wait_gate(gate)
    (sandbox,) = world.rows(
        "select s.id from sandbox s join spec p on p.id = s.spec_id where p.repo_id = ?", kit.id
    )
    message = {"message_type": "user_message", "content": "Mind the gap."}
    world.wait(lambda: said(world, str(sandbox["id"]), message), "the message stored")
    unsent = "select id from message where sandbox_id = ? and state = 'queued'"
    world.wait(lambda: not world.rows(unsent, sandbox["id"]), "the message on its way")
    world.open_gate(gate)
    world.wait(lambda: world.crashed() == points, "every death")
    send_again(world, kit)
    settled_s = settle(world, kit)
    assert_one_of_each(kit, number)
    states = world.rows("select state from message where sandbox_id = ?", sandbox["id"])
    assert [row["state"] for row in states] == ["acknowledged"]
    for point in points:
        note(request, point, "web killed", reached=1, settled_s=settled_s)


def test_every_point_of_the_web_process_has_a_run() -> None:
    assert {"delivery", *OF_THE_AGENT, *OF_A_MESSAGE} == set(WEB_COMMITS)
    assert {point.rsplit(".", 1)[0] for point in WEB_POINTS} == set(WEB_COMMITS)
