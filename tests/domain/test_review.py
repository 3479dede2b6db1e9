"""What the agent is told of a review, and what its threads are answered."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.domain.review import MAX_MESSAGE, MAX_WORDS, compose_batch
from app.domain.review_answers import (
    Round,
    Untold,
    answer_marker,
    are_unanswered,
    render_answer,
    untold_marker,
)
from app.domain.review_words import LONGEST, QUIET, PullWords, Remark, ReviewBody, decide_due, stands_alone

CAROL = (1, "carol")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def remark(number: int, body: str = "Rename it.", **fields: object) -> Remark:
    values: dict[str, object] = {
        "review_id": 5, "root_id": number, "author_id": 1, "author_login": "carol", "author_type": "User", "path": "a.py",
        "line": 3, "original_line": 3, "side": "RIGHT", "diff_hunk": "@@ -1 +1 @@\n-a\n+b",
    }  # fmt: skip
    return Remark(comment_id=number, body=body, **(values | fields))  # type: ignore[arg-type]


def words(
    *remarks: Remark, body: str = "", state: str = "CHANGES_REQUESTED", resolved: tuple[int, ...] = ()
) -> PullWords:
    return PullWords((ReviewBody(5, "PRR_5", state, body, 1),), remarks, frozenset(resolved))


def test_message_names_verdict_place_and_thread_in_the_order_of_the_diff() -> None:
    composed = compose_batch(words(remark(11), remark(12, "Why?", path="b.py", line=None)), CAROL, {1}, 7)
    lines = composed.text.splitlines()
    assert lines[0] == "Review of pull request #7 by carol: changes requested. 2 threads below."
    assert "Thread 11 (1 of 2): a.py, line 3" in lines
    assert "Thread 12 (2 of 2): b.py, line 3 as it stood then (outdated)" in lines
    assert [(one.root_id, one.comment_ids) for one in composed.threads] == [(11, (11,)), (12, (12,))]
    assert composed.place == "pull/7#discussion_r11"
    assert not composed.stops


def test_words_whose_line_has_moved_since_are_known_as_said() -> None:
    said = compose_batch(words(remark(11), remark(12, "Why?")), CAROL, {1}, 7).text
    moved = remark(11, line=None)
    assert compose_batch(words(moved, remark(12, "Why?")), CAROL, {1}, 7).is_said_in(said, 11)
    changed = remark(11, "Rename", line=None)
    assert not compose_batch(words(changed, remark(12, "Why?")), CAROL, {1}, 7).is_said_in(said, 11)


def test_side_of_the_old_text_is_named() -> None:
    assert "a.py, line 3 of the old text" in compose_batch(words(remark(11, side="LEFT")), CAROL, {1}, 7).text


def test_words_of_others_and_resolved_threads_are_left_out_and_earlier_ones_of_writers_shown() -> None:
    found = words(
        remark(10, "Is it right?", author_id=2, author_login="alice", review_id=4),
        remark(11, "Print the keys.", author_id=3, author_login="bob", review_id=4, root_id=10),
        remark(12, "No.", root_id=10), remark(13, "Done already."), remark(14, "Mine, later.", author_id=2),
        resolved=(13,),
    )  # fmt: skip
    text = compose_batch(found, CAROL, {1, 2}, 7).text
    assert "Earlier, alice:\n> Is it right?" in text
    assert "\nNo." in text
    assert all(left not in text for left in ("keys", "Done already", "Mine, later"))


def test_hunk_is_cut_to_its_end_and_can_not_leave_its_fence() -> None:
    hunk = "\n".join(["@@ -1 +1 @@", *(f"+line {n}" for n in range(40)), "+```", "+rm -rf"])
    text = compose_batch(words(remark(11, diff_hunk=hunk)), CAROL, {1}, 7).text
    assert "+line 5\n" not in text
    assert "+line 39\n" in text
    assert "\n````diff\n" in text


@pytest.mark.parametrize("body", ["", "  \n", "> quoted", "<!-- hidden -->", "/agent status"])
def test_review_that_says_nothing_to_the_agent_makes_no_message(body: str) -> None:
    assert compose_batch(words(body=body, state="APPROVED"), CAROL, {1}, 7).text == ""


def test_words_beside_a_stop_are_kept_and_marked() -> None:
    composed = compose_batch(words(body="/agent stop\nAll wrong."), CAROL, {1}, 7)
    assert "All wrong." in composed.text
    assert "/agent stop" not in composed.text
    assert composed.stops
    assert composed.place == "pull/7#pullrequestreview-5"


@pytest.mark.parametrize(
    ("author_id", "marker", "second", "left"),
    [
        (99, answer_marker("b", 11), 1, ()),
        (99, answer_marker("b", 11), 0, (11,)),
        (1, answer_marker("b", 11), 1, (11,)),
        (99, untold_marker("b", 11, Untold.LEFT_OUT), 1, (11,)),
    ],
)
def test_only_an_answer_of_ours_that_is_younger_deals_with_a_thread_opened_again(
    author_id: int, marker: str, second: int, left: tuple[int, ...]
) -> None:
    at = f"2026-01-01T00:00:0{second}Z"
    answer = remark(12, f"{marker}\nDone.", root_id=11, author_id=author_id, updated_at=at)
    assert are_unanswered(words(remark(11), answer), [(11, NOW)], 99) == frozenset(left)
    assert are_unanswered(words(remark(11), answer), [(11, None)], 99) == {11}


def test_one_long_comment_is_cut_and_what_does_not_fit_is_left_out_whole() -> None:
    found = words(
        *(remark(n, f"Point {n}. " + "x" * 2 * MAX_WORDS) for n in range(1, 41)), body="Some things."
    )
    composed = compose_batch(found, CAROL, {1}, 7)
    assert len(composed.text) <= MAX_MESSAGE
    shown = [one.root_id for one in composed.threads]
    left = [one.root_id for one in composed.left_out]
    assert shown + left == list(range(1, 41))
    assert shown
    assert left
    assert all(f"Point {n}. " in composed.text for n in shown)
    assert all(f"Point {n}. " not in composed.text for n in left)
    assert f"{len(left)} more left out" in composed.text


@pytest.mark.parametrize(
    ("came_to", "text"),
    [
        (Round(sha="a" * 40, files=("x.py",)), "Looked at in [`aaaaaaa`](URL), which changes `x.py`."),
        (Round(sha="a" * 40, answers={1: "Renamed."}), "Renamed.\n\nIn [`aaaaaaa`](URL)."),
        (Round(answers={1: "It is right."}), "It is right.\n\nNothing was committed in this round."),
        (Round(), "Nothing was changed for this: the round ended without a commit."),
        (
            Round(failed="budget", answers={1: "Half."}),
            "This could not be dealt with: the run failed. The status comment on the issue says why.",
        ),
    ],
)
def test_answer_says_what_came_of_the_round(came_to: Round, text: str) -> None:
    marker = answer_marker("b", 1)
    assert render_answer(marker, 1, came_to, "URL") == f"{marker}\n{text}"


def test_single_comments_are_due_after_silence_and_at_the_latest_after_two_minutes() -> None:
    assert decide_due(NOW, NOW) == NOW + QUIET
    assert decide_due(NOW, NOW + timedelta(seconds=115)) == NOW + LONGEST


@pytest.mark.parametrize(
    ("state", "body", "alone"),
    [("commented", "", False), ("COMMENTED", "Words.", True), ("approved", "", True), ("CHANGES_REQUESTED", "", True)],
)  # fmt: skip
def test_review_with_words_or_a_verdict_stands_alone(state: str, body: str, alone: bool) -> None:
    assert stands_alone(state, body) is alone
