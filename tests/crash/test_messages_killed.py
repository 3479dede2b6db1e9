"""Whoever is killed while a message is on its way, the conversation has it exactly once (by the model's own log)."""

from __future__ import annotations

import pytest

from tests.crash.faults import go_on, kill_in_sandbox, kill_part, restart, settle, stands_still
from tests.crash.report import note
from tests.flow.test_conversation import copies, heard
from tests.flow.test_interference import bash
from tests.flow.world import World

pytestmark = pytest.mark.crash

WORDS = "Please mention the moon."
STATES = ("queued", "sent", "acknowledged")
"""Killed when the message has come this far; the web process at its own commits is in test_web_killed.py."""


@pytest.mark.parametrize("victim", ["worker", "payload", "agent"])
@pytest.mark.parametrize("state", STATES)
def test_killed_when_a_message_has_come_so_far(
    world: World, state: str, victim: str, request: pytest.FixtureRequest
) -> None:
    arms = "sent.before=stop" if state == "queued" else ""
    restart(world, arms)
    kit = world.repository()
    name = f"crash-words-{state}-{victim}"
    turn = [
        bash("echo more >> README.md"),
        bash("true", gate=name),
        bash("true", gate=f"{name}-2"),
        {"text": "Done."},
    ]
    world.script(name, turn, turn, [{"text": "Heard."}])
    number = kit.start(name)
    kit.wait_gate(name)
    world.github.comment(kit.name, number, "carol", WORDS)
    web = stands_still(world, "sent.before", "web") if state == "queued" else None
    if state != "queued":
        states = "select m.state from message m join spec p on p.id = m.spec_id where p.repo_id = ? and m.state <> 'queued'"
        world.wait(lambda: world.rows(states, kit.id), "the message on its way")
    if state == "acknowledged":
        world.open_gate(name)
        world.wait(lambda: heard(world, name, WORDS), "the words in a request")
    if victim == "worker":
        kill_part(world, "worker")
    else:
        kill_in_sandbox(world, victim)
    if web is not None:
        go_on(web)
    for gate in (name, f"{name}-2"):
        world.open_gate(gate)
    if victim == "agent":
        world.wait(lambda: "Failed" in kit.status(number) or heard(world, name, WORDS), "an end or its words")
        world.github.comment(kit.name, number, "carol", "/agent retry")
    settled_s = settle(world, kit)
    world.wait(lambda: heard(world, name, WORDS), "the words in a request")
    assert copies(world, name, WORDS) == 1
    note(request, f"message {state}", f"{victim} killed", reached=1, settled_s=settled_s)
