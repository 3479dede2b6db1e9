"""The page of failures names every kind once, with tests that exist or the later capability that it belongs to."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from tests.docs.markdown import ROOT, defined_names

PAGE = ROOT / "docs" / "failures.md"
KINDS = [*range(1, 155)]
_ROW = re.compile(r"^\| F(\d+) \|(.*)\|(.*)\|(.*)\|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
_WORD = re.compile(r"later: ([a-z-]+)")


@dataclass(frozen=True)
class Row:
    number: int
    trouble: str
    answer: str
    cover: str

    @property
    def tests(self) -> list[tuple[str, str]]:
        return _TEST.findall(self.cover)

    @property
    def later(self) -> list[str]:
        return _WORD.findall(self.cover)

    @property
    def rest(self) -> str:
        """What stands beside tests and words."""
        return _WORD.sub("", _TEST.sub("", self.cover)).strip()


def parse_page(text: str) -> tuple[list[Row], set[str]]:
    """The rows, and the words that the table at the top explains."""
    rows = [Row(int(number), *(cell.strip() for cell in cells)) for number, *cells in _ROW.findall(text)]
    return rows, set(re.findall(r"^\| `later: ([a-z-]+)` \|", text, re.MULTILINE))


def find_faults(text: str) -> list[str]:
    """What is wrong with a page; empty when it is right."""
    rows, words = parse_page(text)
    faults = [] if [row.number for row in rows] == KINDS else ["not each kind once and in order"]
    for row in rows:
        name = f"F{row.number}"
        if not row.trouble or not row.answer:
            faults.append(f"{name}: says nothing")
        if not row.tests and not row.later:
            faults.append(f"{name}: neither a test nor a later word")
        if row.rest:
            faults.append(f"{name}: {row.rest} is neither a test nor a word")
        faults += [f"{name}: {word} is not explained" for word in row.later if word not in words]
        for path, test in row.tests:
            if not (ROOT / path).is_file() or test not in defined_names(ROOT / path):
                faults.append(f"{name}: there is no {path}::{test}")
    used = {word for row in rows for word in row.later}
    return faults + [f"{word} is explained and not used" for word in sorted(words - used)]


def test_every_kind_stands_on_the_page_once_with_tests_that_exist_or_a_later_word() -> None:
    assert find_faults(PAGE.read_text()) == []


LATER_ROW = (
    "`tests/db/test_specs.py::test_worker_that_slept_past_its_lease_then_its_write_changes_nothing` "
    "later: blocked-loop |\n| F35"
)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("| F1 |", "| F2 |", "not each kind once"),
        ("::test_delivery_repeated_fifty", "::test_nothing_repeated_fifty", "F1: there is no"),
        ("tests/web/test_github_webhook.py", "tests/web/test_nowhere.py", "F1: there is no"),
        (LATER_ROW, "|\n| F35", "F34: neither"),
        (LATER_ROW, "later: someday |\n| F35", "F34: someday is not explained"),
        (LATER_ROW, "perhaps later |\n| F35", "F34: perhaps later is neither"),
        ("| `later: blocked-loop` |", "| `later: dreaming` |", "dreaming is explained and not used"),
    ],
)
def test_a_wrong_page_is_found_out(old: str, new: str, fault: str) -> None:
    text = PAGE.read_text()
    assert old in text
    assert any(found.startswith(fault) for found in find_faults(text.replace(old, new)))
