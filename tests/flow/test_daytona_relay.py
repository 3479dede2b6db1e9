"""The main job in sandboxes that can't reach the app: a worker carries what they say and ask."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from simulators.daytona.box import isolation
from tests.flow.repository import Repository
from tests.flow.test_conversation import copies, heard, reactions
from tests.flow.test_interference import bash
from tests.flow.test_recovery import (
    assert_what_it_did_alone_counts,
    holds_in_machine,
    pass_an_hour,
    start_alone,
)
from tests.flow.world import World


@pytest.fixture(scope="module")
def closed_world() -> Iterator[World]:
    """Daytona's tier 1: the model's API is among the hosts that are open there, the app is not."""
    if isolation() != "bubblewrap":
        pytest.skip("a machine's network is closed by bubblewrap")
    with World.running("daytona", MODEL_KEY_IN_SANDBOX="true") as world:
        world.daytona.do("tier/set", tier=1, open_ports=[world.model.base_url.port])
        yield world


def test_labeled_issue_is_built_behind_a_relay_and_a_comment_reaches_the_agent_at_work(
    closed_world: World,
) -> None:
    world, kit = closed_world, closed_world.repository()
    name, words = "relayed", "Please mention the moon."
    world.script(
        name,
        [bash("sleep 8; echo slept >> README.md"), {"text": "Done."}],
        on_message=[{"match": "the moon", "steps": [bash("echo moon >> README.md"), {"text": "Mentioned."}]}],
    )
    number = kit.start(name)
    running = (
        "select e.seq from event e join sandbox s on s.id = e.sandbox_id join spec p on p.id = s.spec_id "
        "where p.repo_id = ? and e.event_type = 'agent.tool_use'"
    )
    world.wait(lambda: world.rows(running, kit.id), "the tool running")
    comment = world.github.comment(kit.name, number, "carol", words)
    world.wait(lambda: heard(world, name, words), "the words in a request")
    world.wait(lambda: reactions(world, comment) == ["eyes", "rocket"], "the receipt")
    kit.rest()
    assert copies(world, name, words) == 1
    assert kit.changed() == ["README.md"]
    assert b"moon" in kit.file("README.md")
    assert not kit.pull()["draft"]
    assert kit.checks()[kit.pull()["head"]["sha"]] == "success"
    assert "operator" in kit.status(number), "whose model key it was"
    world.wait(lambda: re.search(r"\$0\.0[1-9]", kit.status(number)), "what it cost, as the agent says")
    world.wait(lambda: not world.daytona.live(), "the end of all machines")
    machines = world.daytona.machines()
    assert [one["labels"].get("link") for one in machines] == [None, "relay"], "one has tried"
    shown = str(machines)
    logs = "".join(path.read_text() for path in (world.home / "logs").glob("*.log"))
    for secret in (*world.secrets.values(), "iws_"):
        assert secret not in shown
    for secret in world.secrets.values():
        assert secret not in logs
    assert not list((world.home / "state" / "relay").iterdir()), "artifacts on their way are gone"


def reported(world: World, kit: Repository, event_type: str) -> int:
    """How many events of that type all sandboxes of the repository have reported."""
    boxes = [
        one for one in world.app.get("/api/v1/sandboxes").json()["items"] if one["repository"] == kit.name
    ]
    pages = [
        world.app.get(f"/api/v1/sandboxes/{one['id']}/events", params={"event_type": event_type})
        for one in boxes
    ]
    return sum(len(page.json()["items"]) for page in pages)


def test_agent_behind_a_relay_worked_on_alone_and_was_stopped_then_its_work_is_fetched_from_its_machine(
    closed_world: World,
) -> None:
    name = "relayed-alone"
    kit, number, home = start_alone(closed_world, name)
    closed_world.wait(lambda: holds_in_machine(home, "work.bundle", "late.txt"), "the work lying ready")
    pass_an_hour(closed_world)
    closed_world.start_up()
    kit.rest()
    assert_what_it_did_alone_counts(closed_world, kit, number, name)
    assert reported(closed_world, kit, "agent.tool_completed") == 2, "of the one that was alone, too"


def test_answer_of_the_model_and_the_toolbox_break_off_in_the_middle_of_a_turn_then_it_is_done_and_told_once(
    closed_world: World,
) -> None:
    world, kit, name = closed_world, closed_world.repository(), "relayed-cut"
    cut = {"kind": "cut", "times": 1}
    world.script(
        name,
        [
            bash("touch ../../in-tool; until [ -e ../../go-on ]; do sleep 0.1; done; echo once >> once.txt"),
            {**bash("echo twice >> once.txt"), "fault": cut},
            {"text": "Done.", "fault": cut},
        ],
    )
    kit.start(name)
    world.wait(lambda: any(world.home.glob("daytona/*/home/in-tool")), "the tool running")
    (at_work,) = world.home.glob("daytona/*/home/in-tool")
    world.daytona.do("faults/add", method="POST", path="/files/bulk-download$", times=8, drop=True)
    at_work.with_name("go-on").touch()
    kit.rest()
    asked = world.model.get("/_sim/requests", params={"scenario": name}).json()["requests"]
    assert [one["outcome"] for one in asked].count("cut") == 2
    assert kit.changed() == ["once.txt"]
    assert kit.file("once.txt") == b"once\ntwice\n"
    assert not kit.pull()["draft"]
    assert reported(world, kit, "agent.tool_completed") == 2
    assert reported(world, kit, "agent.completed") == 1
    world.wait(lambda: not world.daytona.live(), "the end of all machines")
