from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, strategies as st

from app.domain.commit_message import EMPTY_MESSAGE, sanitize_commit_message

TEXT = st.text(alphabet=st.sampled_from("ab#1 @:[]-\n\r\t\u200b\0skipcfxeCo"), max_size=120)


@pytest.mark.parametrize("message", ["", " \n\n", "\0\u200b", "[skip ci]", "Signed-off-by: Alice <a@b>"])
def test_message_of_nothing_gets_a_subject(message: str) -> None:
    assert sanitize_commit_message(message) == EMPTY_MESSAGE


def test_ordinary_message_stays() -> None:
    text = "Add binomial coefficients\n\nUses the multiplicative formula; tests: C(5, 2) = 10.\n- one\n- two"
    assert sanitize_commit_message(text) == text


@pytest.mark.parametrize("word", ["Fixes", "closes", "Resolved", "fix:", "CLOSE :"])
@pytest.mark.parametrize("target", ["#1", "octo/hello#12", "GH-3", "https://github.com/octo/hello/issues/4"])
def test_closing_words_close_nothing(word: str, target: str) -> None:
    text = sanitize_commit_message(f"{word} {target}")
    assert not re.search(r"(?i)\b(close|fix|resolve)\w*\s*:?\s+(\S*#\d|GH-\d|https)", text)


@pytest.mark.parametrize(
    "mark", ["[skip ci]", "[CI skip]", "[no ci]", "[skip actions]", "[actions skip]", "[skip [skip ci]ci]"]
)
def test_skip_marks_are_taken_out(mark: str) -> None:
    assert sanitize_commit_message(f"Work {mark} on it") == "Work  on it"


@pytest.mark.parametrize(
    "line",
    [
        "Co-authored-by: Bob <b@c>",
        "signed-off-by: Bob <b@c>",
        "Reviewed-by : x",
        "skip-checks: true",
        "\tAcked-by: x",
    ],
)
def test_trailers_of_others_are_dropped(line: str) -> None:
    assert sanitize_commit_message(f"Work\n\nText\n{line}\nMore") == "Work\n\nText\n\nMore"


def test_mentions_call_nobody() -> None:
    text = sanitize_commit_message("Thanks @octo/team and @alice, mail a@b.org")
    assert "@octo" not in text
    assert "@alice" not in text
    assert "a@b.org" in text


def test_lengths_are_capped() -> None:
    subject, _, body = sanitize_commit_message("s" * 5000 + "\n\n" + "b" * 9000).partition("\n\n")
    assert (len(subject), len(body)) == (120, 4000)


@given(TEXT)
def test_result_is_stable_and_holds_no_controls(message: str) -> None:
    text = sanitize_commit_message(message)
    assert text
    assert text == sanitize_commit_message(message)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\r]", text)
    assert "[skip ci]" not in text


@pytest.mark.parametrize("piece", ["close ", "[skip ", "a-", " ", "fix:    ", "@", "[skip ci]"])
def test_time_grows_with_the_text_only(piece: str) -> None:
    started = time.process_time()
    sanitize_commit_message("fix" + " " * 100_000 + piece * 100_000)
    sanitize_commit_message(piece * 100_000)
    assert time.process_time() - started < 5
