"""Reviews and their threads: against the simulated GitHub, over HTTP."""

from __future__ import annotations

import pytest

from app.domain.errors import Gone, RetryAt, Unexpected
from app.domain.review_answers import answer_marker
from tests.github.conftest import Stage
from tests.github.test_pulls import branch, pull

FILE = "README.md"


async def opened(stage: Stage) -> int:
    await branch(stage)
    return (await pull(stage)).number


def review(stage: Stage, number: int, body: str, *words: str) -> dict[str, object]:
    comments = [{"path": FILE, "body": text, "line": 1} for text in words]
    return dict(stage.github.review(stage.name, number, "alice", "REQUEST_CHANGES", body, comments))


async def test_words_of_a_review_come_with_their_threads_and_which_of_them_are_resolved(stage: Stage) -> None:
    number = await opened(stage)
    made = review(stage, number, "Some things.", "One.", "Two.")
    first, second = (one["id"] for one in made["comments"])  # type: ignore[attr-defined]
    outdated = stage.github.line_comment(stage.name, number, "alice", FILE, "Old.", outdated=True)["id"]
    reply = stage.github.reply(first, "alice", "More.")["id"]
    stage.github.resolve_thread(second, "alice")
    words = await stage.gateway.fetch_pull_words(stage.repo, number, {made["id"], 999_999_999})  # type: ignore[arg-type]
    assert [(one.review_id, one.state, one.body) for one in words.reviews] == [
        (made["id"], "CHANGES_REQUESTED", "Some things.")
    ]
    assert {(one.comment_id, one.root_id, one.body) for one in words.remarks} == {
        (first, first, "One."), (second, second, "Two."), (outdated, outdated, "Old."), (reply, first, "More."),
    }  # fmt: skip
    assert [one.line for one in words.remarks if one.comment_id == outdated] == [None]
    assert words.resolved == {second}
    stage.github.resolve_thread(second, "alice", False)
    assert not (await stage.gateway.fetch_pull_words(stage.repo, number, set())).resolved


async def test_thread_is_answered_once_also_when_the_first_answer_was_lost(stage: Stage) -> None:
    number = await opened(stage)
    root = int(stage.github.line_comment(stage.name, number, "alice", FILE, "Why?")["id"])
    marker = answer_marker("b", root)
    stage.github.reply(root, "alice", f"{marker}\nI can type a marker, too.")
    stage.github.add_fault(method="POST", path="/replies$", status=502, apply=True, times=1)
    with pytest.raises(RetryAt):
        await stage.gateway.ensure_thread_answer(stage.repo, number, root, marker, f"{marker}\nSo.")
    await stage.gateway.ensure_thread_answer(stage.repo, number, root, marker, f"{marker}\nSo.")
    words = await stage.gateway.fetch_pull_words(stage.repo, number, set())
    assert [one.body for one in words.remarks if one.author_type == "Bot"] == [f"{marker}\nSo."]


async def test_answer_without_its_marker_or_to_a_thread_that_is_gone_is_not_written(stage: Stage) -> None:
    number = await opened(stage)
    root = int(stage.github.line_comment(stage.name, number, "alice", FILE, "Why?")["id"])
    with pytest.raises(Unexpected):
        await stage.gateway.ensure_thread_answer(stage.repo, number, root, "<!-- m -->", "So.")
    stage.github.delete_line_comment(root, "alice")
    with pytest.raises(Gone):
        await stage.gateway.ensure_thread_answer(stage.repo, number, root, "<!-- m -->", "<!-- m -->\nSo.")


async def test_reactions_are_put_on_a_review_and_on_a_comment_once(stage: Stage) -> None:
    number = await opened(stage)
    made = review(stage, number, "Well.", "One.")
    comment_id = int(made["comments"][0]["id"])  # type: ignore[index]
    for _ in range(2):
        await stage.gateway.ensure_review_reaction(stage.repo, str(made["node_id"]), "eyes")
        await stage.gateway.ensure_remark_reaction(stage.repo, comment_id, "rocket")
    found = stage.github.issue(stage.name, number)
    assert [one["content"] for one in found["reviews"][0]["reaction_list"]] == ["eyes"]
    assert [one["content"] for one in found["review_comments"][0]["reaction_list"]] == ["rocket"]
