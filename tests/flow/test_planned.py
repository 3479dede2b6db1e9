"""A plan made, discussed, approved and built by real agents, as people see it on GitHub."""

from __future__ import annotations

import re

from tests.flow.repository import Repository
from tests.flow.world import World


def wait_for(kit: Repository, number: int, pattern: str) -> str:
    """The first comment of the issue that the pattern is found in."""

    def found() -> str | None:
        return next((text for text in kit.comments(number) if re.search(pattern, text)), None)

    return kit.world.wait(found, f"a comment with {pattern}")


def reactions(kit: Repository, number: int, body: str) -> set[str]:
    comment = next(one for one in kit.issue(number)["comment_list"] if one["body"] == body)
    return {name for name, count in comment["reactions"].items() if name in {"eyes", "rocket"} and count}


def test_plan_is_changed_by_a_comment_then_approved_then_built_to_the_last_criterion(world: World) -> None:
    kit = world.repository({"README.md": "# Kit\n", ".github/issuewright.yml": "max_parallel_tasks: 2\n"})
    number = kit.open_issue("plan_revise")
    kit.label(number, label="agent:plan")
    first = wait_for(kit, number, r"part=plan[^$]*revision 1\.")
    assert "T4" not in first
    assert kit.branches() == {"main"}
    words = "Please plan one more task: note it in CHANGES.md."
    kit.world.github.comment(kit.name, number, "alice", words)
    second = wait_for(kit, number, r"part=plan[^$]*revision 2\.")
    assert "Note the change" in second
    kit.world.wait(lambda: reactions(kit, number, words) == {"eyes", "rocket"}, "its receipt")
    old, new = (str(re.search(r"Plan `(\w{8})`", text)[1]) for text in (first, second))  # type: ignore[index]
    kit.world.github.comment(kit.name, number, "alice", f"/agent approve {old}")
    wait_for(kit, number, "Not approved")
    kit.world.github.comment(kit.name, number, "alice", f"/agent approve {new}")
    kit.rest()
    pull = kit.pull()
    assert not pull["draft"]
    assert kit.changed() == ["CHANGES.md", "binomial.py", "docs/binomial.md", "tests/test_binomial.py"]
    assert "3 of 3 met" in pull["body"]
    assert len([text for text in kit.comments(number) if "part=plan" in text]) == 1
    assert "Done: ready for review" in kit.status(number)
    checks = kit.checks()
    assert checks.pop(pull["head"]["sha"]) == "success"
    assert set(checks.values()) <= {"neutral"}
