"""Agents that go round in circles or mend tests by deleting them: reminded while they work, then stopped, and people are
asked.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.flow.repository import Repository
from tests.flow.world import World


def test_model_that_is_asked_says_that_an_agent_leaves_its_task_then_the_agent_is_reminded(
    provider: str,
) -> None:
    with World.running(provider, GUARDIAN_MODEL="claude-haiku-4-5", GUARDIAN_MODEL_EVERY="5") as world:
        kit = world.repository()
        number = kit.start("drifts")
        status = kit.wait_status(number, "away from the task, as a model that was asked says", 40)
        told = guardian_events(world, status)
        assert [(one["event_type"], one["event_data"]["rule"]) for one in told[:1]] == [
            ("guardian.nudged", "verdict")
        ]
        assert "leave the game" in told[0]["event_data"]["message"]
        kit.world.github.comment(kit.name, number, "carol", "/agent stop now")
        kit.rest()
        assert kit.check()["conclusion"] == "cancelled"


def find_notice(kit: Repository) -> str | None:
    number = kit.pull()["number"] if kit.pulls() else None
    found = [text for text in kit.comments(number) if "**Paused.**" in text] if number else []
    assert len(found) < 2
    return found[0] if found else None


def guardian_events(world: World, status: str) -> list[dict[str, Any]]:
    spec_id = status.split("issuewright:spec=", 1)[1].split(maxsplit=1)[0]
    (sandbox_id,) = world.app.get(f"/api/v1/specs/{spec_id}").json()["sandbox_ids"]
    told: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = world.app.get(
            f"/api/v1/sandboxes/{sandbox_id}/trajectory",
            params={"limit": 200, **({"cursor": cursor} if cursor else {})},
        ).json()
        told += [one for one in page["items"] if one["event_type"].startswith("guardian.")]
        cursor = page["next_cursor"]
    return told


def test_agents_that_loop_or_delete_tests_are_reminded_and_then_stopped_and_people_are_asked(
    world: World,
) -> None:
    tests = {
        f"tests/test_{number}.py": f"def test_it() -> None:\n    assert {number}\n" for number in range(1, 31)
    }
    kits = {
        "loops": world.repository(),
        "deletes_tests": world.repository({"README.md": "# Kit\n", **tests}),
    }
    numbers = {name: kit.start(name) for name, kit in kits.items()}
    phrases = {"loops": "the same command again and again", "deletes_tests": "tests deleted or skipped"}
    for name, kit in kits.items():
        notice = world.wait(partial(find_notice, kit), f"{name}: people are asked")
        assert f"Seen last: {phrases[name]}" in notice
        assert "`/agent resume`" in notice
        status = kit.wait_status(numbers[name], "⏸️ Paused")
        assert "The agent was reminded 3 times: " in status
        assert phrases[name] in status
        told = guardian_events(world, status)
        assert [one["event_type"] for one in told] == ["guardian.nudged"] * 3 + ["guardian.paused"]
        assert {one["source"] for one in told} == {"system"}
        kit.world.github.comment(kit.name, numbers[name], "carol", "/agent stop")
        kit.rest()
        assert kit.check()["conclusion"] == "cancelled"
    asked = world.model.get("/_sim/requests", params={"kind": "verdict", "body": "0"}).json()["requests"]
    assert asked == [], "no model is asked about agents unless the operator names one"
