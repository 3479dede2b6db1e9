"""A planned run whose model waits wherever a test wants it to, and what it must have come to in the end."""

from __future__ import annotations

import re
from typing import Any

from sandbox_payload.wire.plan import AGENT_PHASES
from simulators.model.planned import PLANNED
from tests.flow.repository import Repository
from tests.flow.world import World

SIDE_BY_SIDE = {
    "README.md": "# Kit\n\nA kit.\n",
    ".github/issuewright.yml": "max_parallel_tasks: 2\n",
}
FILES = ["binomial.py", "docs/binomial.md", "tests/test_binomial.py"]
_QUESTION = '{"id":"Q1","question":"Which numbers are wanted?","blocking":true}'
_SUBMIT = "mcp__issuewright__submit_"
_APPROVE = re.compile(r"/agent approve ([0-9a-f]{6,})")


def held(world: World, scenario: str, name: str) -> None:
    """The scenario once more as `name`, with gates of its own (NAME-plan-PHASE or NAME-task-KEY) and a question."""
    text = (
        PLANNED[scenario].model_dump_json().replace('"open_questions":[]', f'"open_questions":[{_QUESTION}]')
    )
    gated = re.sub(r'"gate":"((?:plan|task)-\w+)"', rf'"gate":"{name}-\1"', text)
    world.model.post(f"/_sim/scripts/{name}", content=gated).raise_for_status()


def start_planned(kit: Repository, scenario: str, label: str = "agent:plan") -> int:
    number = kit.open_issue(scenario, title="Add binomial coefficients")
    kit.label(number, label=label)
    return number


def wait_for_plan(kit: Repository, number: int) -> str:
    """Until the status comment asks for a yes; the hash it asks for."""
    found = kit.world.wait(lambda: _APPROVE.search(_status_so_far(kit, number)), "a plan to approve")
    return found[1]


def _status_so_far(kit: Repository, number: int) -> str:
    return next((text for text in kit.comments(number) if "part=status" in text), "")


def waiting_at(world: World, gate: str) -> list[int]:
    """Numbers of the model's requests that wait there."""
    gates = world.model.get("/_sim/gates").json()["gates"]
    return [request for one in gates if one["name"] == gate for request in one["waiting"]]


def finished_phases(kit: Repository) -> list[str]:
    rows = kit.world.rows(
        "select p.name from phase p join spec s on s.id = p.spec_id where s.repo_id = ? and p.state = 'completed'",
        kit.id,
    )
    return [str(row["name"]) for row in rows]


def assert_each_phase_handed_in_once(world: World, scenario: str) -> None:
    """By the model's own log: no finished phase was asked for again."""
    calls: dict[str, set[str]] = {}
    entries = world.model.get("/_sim/requests", params={"scenario": scenario}).json()["requests"]
    for entry in entries:
        for block in _blocks(entry["body"]):
            name = str(block.get("name", ""))
            if block.get("type") == "tool_use" and name.startswith(_SUBMIT):
                calls.setdefault(name.removeprefix(_SUBMIT), set()).add(str(block["id"]))
    assert {phase: len(ids) for phase, ids in calls.items()} == dict.fromkeys(map(str, AGENT_PHASES), 1)


def _blocks(body: dict[str, Any]) -> list[dict[str, Any]]:
    contents = [message["content"] for message in body["messages"]]
    return [block for content in contents if isinstance(content, list) for block in content]


def assert_one_plan_in_one_pull(kit: Repository, number: int) -> None:
    pull = kit.pull()
    assert kit.branches() == {"main", pull["head"]["ref"]}
    assert kit.changed() == FILES
    comments = kit.comments(number)
    parts = ("status", "plan", "questions")
    assert [len([text for text in comments if f"part={part}" in text]) for part in parts] == [1, 1, 1]
    assert None not in kit.checks().values()  # fails by itself when a head has two
    assert kit.check()["conclusion"] == "success"
    assert not pull["draft"]
    assert "Done" in kit.status(number)


def merges(kit: Repository) -> int:
    """How many commits of the pull request merge the results of two tasks."""
    pull = kit.pull()
    text = kit.git("rev-list", "--merges", "--count", f"{pull['base']['sha']}..{pull['head']['sha']}")
    return int(text)
