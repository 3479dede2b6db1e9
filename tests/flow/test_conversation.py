"""A comment reaches the agent while it works: in the model's next request, once, with its receipt."""

from __future__ import annotations

import json
from typing import Any

from tests.flow.test_interference import bash
from tests.flow.world import World

TOOL_S = 20


def heard(world: World, scenario: str, text: str) -> int:
    """How many requests of the scenario's agent so far have the text; each is counted however often it has it."""
    asked = world.model.get("/_sim/requests", params={"scenario": scenario}).json()["requests"]
    return sum(text in json.dumps(one) for one in asked)


def copies(world: World, scenario: str, text: str) -> int:
    """How often the newest request has the text."""
    asked = world.model.get("/_sim/requests", params={"scenario": scenario}).json()["requests"]
    return max((json.dumps(one).count(text) for one in asked), default=0)


def reactions(world: World, comment: dict[str, Any]) -> list[str]:
    return sorted(one["content"] for one in world.github.get_comment(int(comment["id"]))["reaction_list"])


def test_comment_while_a_tool_of_20_seconds_runs_is_in_the_next_request_and_receipted(world: World) -> None:
    kit = world.repository()
    name, words = "long-tool", "Please mention the moon."
    world.script(
        name,
        [bash(f"sleep {TOOL_S}; echo slept >> README.md"), {"text": "Done."}],
        on_message=[{"match": "the moon", "steps": [bash("echo moon >> README.md"), {"text": "Mentioned."}]}],
    )
    number = kit.start(name)
    running = (
        "select e.seq from event e join sandbox s on s.id = e.sandbox_id join spec p on p.id = s.spec_id "
        "where p.repo_id = ? and e.event_type = ?"
    )
    world.wait(lambda: world.rows(running, kit.id, "agent.tool_use"), "the tool running")
    comment = world.github.comment(kit.name, number, "carol", words)
    world.wait(lambda: heard(world, name, words), "the words in a request")
    assert not world.rows(running, kit.id, "agent.completed"), "while the tool runs"
    world.wait(lambda: reactions(world, comment) == ["eyes", "rocket"], "the receipt")
    kit.rest()
    assert copies(world, name, words) == 1
    assert "carol, [" in kit.status(number)
    assert "taken in" in kit.status(number)
    assert kit.changed() == ["README.md"]
    assert b"moon" in kit.file("README.md")
