"""Nothing that comes out of a sandbox makes a terminal do anything."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from app.cli.event_lines import print_event
from app.cli.terminal import ReadableLog, escape_unprintable, readable

EVIL = "a\x1b[31mred\x1b[0m\x1b]0;title\x07\x9b2J\x08\u202etxt.exe\x00"


def obeyed(text: str) -> set[str]:
    return {char for char in text if not char.isprintable() and char not in "\n\t"}


@given(st.text())
def test_any_text_is_readable_and_its_lines_stay(text: str) -> None:
    assert obeyed(readable(text)) == set()
    assert readable(readable(text)) == readable(text)


@given(st.text())
def test_any_value_is_the_same_value_in_its_json(text: str) -> None:
    line = escape_unprintable(json.dumps({"x": text}, ensure_ascii=False))
    assert obeyed(line) == set()
    assert json.loads(line) == {"x": text}


def test_colours_and_titles_go_and_words_stay() -> None:
    assert readable("a\x1b[1;31mred\x1b[0m\x1b]0;title\x07b\r\n50%\r100%\n\tend") == "aredb\n50%\n100%\n\tend"


def test_character_cut_between_two_pieces_is_put_together() -> None:
    log = ReadableLog()
    data = "naïve\x1b[0m\n".encode()
    assert (
        "".join(log.feed(data[at : at + 1]) for at in range(len(data)))[:6]
        == "naïve\N{REPLACEMENT CHARACTER}"
    )
    assert log.feed(b"\xff\xfe") == 2 * "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize("name", ["text", "file_path", "full_diff", "command"])
def test_event_is_shown_without_what_a_terminal_obeys(
    capsys: pytest.CaptureFixture[str], name: str, as_json: bool
) -> None:
    event = {
        "seq": 1, "event_type": "agent.file_edited", "timestamp": "2026-03-01T12:00:00Z",
        "event_data": {"file_path": "a.py", name: EVIL + "\n+" + EVIL},
    }  # fmt: skip
    print_event(event, as_json=as_json, diff=True)
    assert obeyed(capsys.readouterr().out) == set()
