"""Lists in the documents are the lists in the code."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from app.cli.root import app
from app.domain.repo_settings import RepoSettings
from app.settings import Settings
from tests.docs.markdown import DOCUMENTS, ROOT

OF_TESTS = {"ISSUEWRIGHT_REQUIRE", "ISSUEWRIGHT_TEST_POSTGRES_URL"}
"""Variables that tests read."""
README = (ROOT / "README.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGE = (ROOT / "docs" / "dependencies.md").read_text()
SECTIONS = {
    "Always installed": PROJECT["dependencies"],
    **{f"Extra `{name}`": packages for name, packages in PROJECT["optional-dependencies"].items()},
}


def names(requirements: Iterable[str]) -> list[str]:
    return sorted({re.split(r"[^A-Za-z0-9._-]", one, maxsplit=1)[0] for one in requirements})


def rows(heading: str) -> list[str]:
    """The first cells of the table under the heading that starts so."""
    section = next(part for part in PAGE.split("\n## ") if part.startswith(heading))
    return sorted(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_dependency_has_its_reason_and_no_other_is_named(heading: str) -> None:
    wanted = [name for name in names(SECTIONS[heading]) if heading != "Extra `dev`" or name != "setuptools"]
    assert rows(heading) == wanted


def test_every_setting_in_the_readme_exists() -> None:
    shown = set(re.findall(r"`([A-Z]+_[A-Z_]+)[`=]", README)) - OF_TESTS
    shown |= {name.upper() for name in re.findall(r"^ *([a-z_]+): \S", README, re.MULTILINE)}
    assert shown - {name.upper() for name in Settings.model_fields} == set()
    assert {"ISSUEWRIGHT_HOME", "PUBLIC_URL"} <= shown


def test_nobody_is_told_to_fetch_this_project_from_a_package_index() -> None:
    """It is in none: whoever takes its name there would be run by everybody who follows the advice."""
    told = [*DOCUMENTS, *(path for name in ("app", "worker") for path in (ROOT / name).rglob("*.py"))]
    assert [path for path in told if re.search(r"pip install [^`\n]*issuewright", path.read_text())] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_no_page_names_a_command_that_is_missing(document: Path) -> None:
    for words in re.findall(r"`issuewright ((?:[a-z][a-z-]* ?)+)", document.read_text()):
        command: Any = get_command(app)
        for word in words.split():
            if not hasattr(command, "commands"):
                break
            assert word in command.commands, words
            command = command.commands[word]


def test_the_readme_names_make_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"make ([a-z-]+)", README)) - targets <= {"and"}


def test_the_page_about_repository_settings_names_every_key() -> None:
    page = (ROOT / "docs" / "repository-settings.md").read_text()
    named = set(re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE))))
    assert named == set(RepoSettings.model_fields)


@pytest.mark.parametrize(
    ("lock", "extras"),
    [("run", {"local"}), ("daytona", {"local", "daytona"}), ("dev", {"local", "daytona", "dev"})],
)
def test_each_lock_has_what_its_extras_ask_for_in_the_same_versions(lock: str, extras: set[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [
        *project["dependencies"],
        *(one for extra in extras for one in project["optional-dependencies"][extra]),
    ]
    locked = pinned(lock)
    assert {re.split(r"[^\w.-]", one)[0] for one in asked} - locked.keys() == set()
    assert locked.items() <= pinned("dev").items()


def pinned(lock: str) -> dict[str, str]:
    """Versions by name."""
    text = (ROOT / "requirements" / f"{lock}.lock").read_text()
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))
