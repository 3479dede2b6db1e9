"""How much of an event's data is kept."""

from __future__ import annotations

from app.domain.event_fields import MAX_FIELD, shorten

LONG = "x" * (MAX_FIELD + 10)


def test_short_texts_stay_as_they_are() -> None:
    data = {"text": "x" * MAX_FIELD, "n": 1, "list": ["a", {"b": None}], "full_diff": "+a"}
    assert shorten("agent.file_edited", data).data == data
    assert shorten("agent.file_edited", data).full == {}


def test_long_texts_are_cut_wherever_they_stand_and_say_so() -> None:
    short = shorten("agent.tool_completed", {"output": LONG, "deep": [{"er": LONG}], LONG: 1})
    assert short.full == {}
    assert short.data["output"] == "x" * MAX_FIELD + "\n… [10 more characters]"
    assert len(short.data["deep"][0]["er"]) < MAX_FIELD + 50
    assert max(map(len, short.data)) < MAX_FIELD + 50


def test_long_diff_is_cut_and_kept_whole_beside() -> None:
    short = shorten("agent.file_edited", {"full_diff": LONG, "file_path": "a.py"})
    assert short.full == {"full_diff": LONG}
    assert short.data["full_diff"].startswith("xxx")
    assert short.data["full_diff"] != LONG


def test_outputs_of_phases_are_never_cut() -> None:
    data = {"output": {"text": LONG}}
    assert shorten("spec.phase_completed", data).data == data
