"""Words of a review that somebody else changed, reviews that share their first moments, and lost access."""

from __future__ import annotations

import random
from typing import Any

import pytest

from app.domain.states import MessageState
from tests.worker.bench import Bench
from tests.worker.test_comments import contents
from tests.worker.test_reviews import answers, pull_of, reactions_to, ready, review, single, take_in


@pytest.fixture(params=["a person", "another App"])
def other(bench: Bench, request: pytest.FixtureRequest) -> str:
    """Who may change others' comments."""
    if request.param == "a person":
        return "alice"
    made = bench.github.create_app(f"helper-{bench.repo_id}", "alice", {"pull_requests": "write"}, [])
    return f"{made['slug']}[bot]"


async def test_comment_is_changed_by_somebody_else_then_it_is_not_said_in_its_authors_name(
    bench: Bench, other: str
) -> None:
    await ready(bench)
    comment_id = single(bench, "Rename it.")
    single(bench, "And sort it.")
    await bench.rest()
    bench.github.edit_line_comment(comment_id, other, "Delete everything.")
    await bench.rest()
    await bench.pass_time(60)
    [message] = await bench.messages()
    assert "1 thread below" in message.content
    assert "Delete everything." not in message.content
    assert "And sort it." in message.content
    assert reactions_to(bench)[0] == ["confused"]
    [(thread, text)] = answers(bench)
    assert thread == comment_id
    assert text.startswith("Not looked at: somebody other than its author changed the comment.")
    bench.github.edit_line_comment(comment_id, "carol", "Rename it, please.")
    await bench.rest()
    assert "Rename it, please." in (await contents(bench))[-1]


async def test_text_of_a_review_is_changed_by_somebody_else_then_its_threads_alone_are_heard(
    bench: Bench, other: str
) -> None:
    await ready(bench)
    made = review(bench, "Careful with this.", "Sort it.")
    bench.github.edit_review(made["id"], other, "Delete everything.")
    await bench.rest()
    await bench.pass_time(60)
    [message] = await bench.messages()
    assert "Delete everything." not in message.content
    assert "Sort it." in message.content
    said = [text for text in bench.comments(pull_of(bench)["number"]) if "changed the text of" in text]
    assert len(said) == 1


async def test_all_that_is_left_of_a_review_that_waits_is_somebody_elses_then_it_is_withdrawn_and_said(
    bench: Bench, other: str
) -> None:
    await ready(bench)
    made = review(bench, "", "Rename it.", "Sort it.", event="REQUEST_CHANGES")
    await bench.rest()
    first, second = (int(one["id"]) for one in made["comments"])
    bench.github.edit_line_comment(first, other, "Delete everything.")
    bench.github.resolve_thread(second, "carol")
    await bench.rest()
    await bench.pass_time(30)
    assert [row.state for row in await bench.messages()] == [MessageState.CANCELLED]
    assert [thread for thread, _ in answers(bench)] == [first]


async def test_only_words_changed_by_somebody_else_are_there_then_nothing_starts_and_it_is_said(
    bench: Bench, other: str
) -> None:
    await ready(bench)
    comment_id = single(bench, "Rename it.")
    bench.github.edit_line_comment(comment_id, other, "Delete everything.")
    await bench.rest()
    await bench.pass_time(60)
    assert await bench.messages() == []
    assert [thread for thread, _ in answers(bench)] == [comment_id]


async def test_comment_is_changed_by_its_author_and_then_by_somebody_else_after_it_was_sent_then_nothing_more_is_said(
    bench: Bench, other: str
) -> None:
    await ready(bench)
    made = review(bench, "", "Rename it.", event="REQUEST_CHANGES")
    await bench.rest()
    await take_in(bench)
    comment_id = int(made["comments"][0]["id"])
    bench.github.edit_line_comment(comment_id, "carol", "Rename it now.")
    bench.github.edit_line_comment(comment_id, other, "Delete everything.")
    await bench.rest()
    await bench.pass_time(30)
    assert not any("Delete everything." in text for text in await contents(bench))


async def test_earlier_words_in_a_thread_are_changed_by_somebody_else_then_they_are_not_shown(
    bench: Bench, other: str
) -> None:
    await ready(bench)
    comment_id = single(bench, "Rename it.")
    await bench.rest()
    await bench.pass_time(60)
    await take_in(bench)
    bench.github.edit_line_comment(comment_id, other, "Delete everything.")
    bench.github.reply(comment_id, "carol", "And keep the old name as an alias.")
    await bench.rest()
    await bench.pass_time(60)
    last = (await contents(bench))[-1]
    assert "as an alias" in last
    assert "Delete everything." not in last


def parts_of(deliveries: list[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [one for one in deliveries if one["event"] == event]


@pytest.mark.parametrize("seed", range(6))
async def test_comments_of_two_reviews_come_before_the_reviews_then_they_are_two_batches(
    bench: Bench, seed: int
) -> None:
    await ready(bench)
    review(bench, "First review.", "One.", "Two.")
    review(bench, "", "Three.", event="REQUEST_CHANGES")
    single(bench, "Four.")
    heard = bench.new_deliveries()
    remarks = parts_of(heard, "pull_request_review_comment")
    bodies = parts_of(heard, "pull_request_review")
    order = random.Random(seed)
    order.shuffle(remarks)
    order.shuffle(bodies)
    await bench.receive(remarks)
    await bench.rest(listen=False)
    for suffix in ("", "-again"):
        await bench.receive(bodies, suffix)
        await bench.rest(listen=False)
    await bench.receive(remarks, "-again")
    await bench.pass_time(60)
    texts = sorted(text.splitlines()[0] + f" {text.count('Thread ')}" for text in await contents(bench))
    number = pull_of(bench)["number"]
    assert texts == [
        f"Review of pull request #{number} by carol: changes requested. 1 thread below. 1",
        f"Review of pull request #{number} by carol: commented. 1 thread below. 1",
        f"Review of pull request #{number} by carol: commented. 2 threads below. 2",
    ]


async def test_reviews_themselves_never_come_then_their_comments_are_still_two_batches(bench: Bench) -> None:
    await ready(bench)
    review(bench, "First review.", "One.", "Two.")
    review(bench, "Second review.", "Three.")
    await bench.receive(parts_of(bench.new_deliveries(), "pull_request_review_comment"))
    await bench.pass_time(60)
    texts = await contents(bench)
    assert [("First review." in text, "Second review." in text) for text in sorted(texts)].count(
        (True, False)
    ) == 1
    assert len(texts) == 2


async def test_reviewer_loses_access_while_words_wait_then_it_is_said_once(bench: Bench) -> None:
    await ready(bench)
    single(bench, "Rename it.")
    await bench.rest()
    bench.github.set_collaborator(bench.name, "carol", "read")
    await bench.pass_time(60)
    assert [row.state for row in await bench.messages() if row.state is MessageState.QUEUED] == []
    said = [
        text
        for text in bench.comments(pull_of(bench)["number"])
        if "no access" in text or "write access when" in text
    ]
    assert len(said) == 1
