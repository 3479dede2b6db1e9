"""A review answered by a real agent, as people see it on GitHub."""

from __future__ import annotations

from typing import Any

from tests.flow.repository import Repository
from tests.flow.world import World


def write_answer(world: World, name: str, thread: int) -> None:
    """The script of a run that edits README.md, and in a second turn follows a review of it."""
    edit = {"name": "Bash", "input": {"command": "echo more >> README.md"}}
    answer = {
        "name": "mcp__reviews__answer_thread",
        "input": {"thread": thread, "answer": "Added one more line."},
    }
    world.script(
        name,
        [{"tool_use": [edit]}, {"text": "Done."}],
        [{"tool_use": [edit]}, {"tool_use": [answer]}, {"text": "Done as the review asks."}],
    )


def remarks(kit: Repository) -> list[dict[str, Any]]:
    number = kit.pull()["number"]
    return list(kit.world.github.issue(kit.name, number)["review_comments"])


def answers(kit: Repository) -> list[str]:
    return [str(one["body"]) for one in remarks(kit) if "issuewright:review" in one["body"]]


def reviewed(kit: Repository, name: str) -> int:
    """A finished run with a review of it under way; the thread's number."""
    write_answer(kit.world, name, 1)
    kit.run(name)
    number, github = kit.pull()["number"], kit.world.github
    # A reader's comment asks for nothing, but gives the thread a number that the script can name.
    thread = int(github.line_comment(kit.name, number, "bob", "README.md", "What is this?")["id"])
    write_answer(kit.world, name, thread)
    github.reply(thread, "carol", "One more line, please.")
    return thread


def test_review_is_followed_and_its_thread_gets_the_agents_own_answer(world: World) -> None:
    kit = world.repository()
    thread = reviewed(kit, "review-flow")
    first = kit.pull()["head"]["sha"]
    world.wait(lambda: answers(kit), "the answer")
    kit.rest()
    head = kit.pull()["head"]["sha"]
    assert head != first
    [answer] = answers(kit)
    assert "Added one more line." in answer
    assert head[:7] in answer
    assert next(one["in_reply_to_id"] for one in remarks(kit) if one["body"] == answer) == thread
    asked = next(one for one in remarks(kit) if one["body"] == "One more line, please.")
    assert {one["content"] for one in asked["reaction_list"]} == {"eyes", "rocket"}
