from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.markdown import DOCUMENTS, ROOT, Link, find_broken, list_links

LIFE = ROOT / "docs" / "life-of-a-label.md"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_relative_link_leads_to_a_file_and_a_name_in_it(document: Path) -> None:
    assert [broken for link in list_links(document) if (broken := find_broken(link))] == []


def test_every_step_of_the_flow_is_on_the_page_of_a_labels_life() -> None:
    shown = {link.path for link in list_links(LIFE)}
    steps = {
        path
        for path in (ROOT / "worker" / "flow").glob("*.py")
        if "async def run(step: Step)" in path.read_text()
    }
    assert steps - shown == set()


def test_every_decision_record_is_listed() -> None:
    listed = {link.path for link in list_links(ROOT / "docs" / "adr" / "README.md")}
    assert set((ROOT / "docs" / "adr").glob("0*.md")) == listed


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("`gone`", "../worker/engine.py"),
        ("engine", "../worker/gone.py"),
        ("`Engine.gone`", "../worker/engine.py"),
        ("what is gone", "operations.md#gone"),
    ],
)
def test_a_broken_link_is_found(text: str, target: str) -> None:
    assert find_broken(Link(LIFE, text, target)) is not None


def test_a_true_name_is_not_called_broken() -> None:
    assert find_broken(Link(LIFE, "`Engine.advance`", "../worker/engine.py")) is None


def test_every_promise_of_security_names_a_test_that_shows_it() -> None:
    page = ROOT / "docs" / "security.md"
    promised = page.read_text().split("\n## Promised\n")[1].split("\n## ")[0]
    promises = [part for part in promised.split("\n\n") if part.startswith("**")]
    assert len(promises) > 10
    assert [part[:60] for part in promises if "\nShown by [`test_" not in part] == []
