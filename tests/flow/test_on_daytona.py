"""The list of what is played on the simulated Daytona leaves nothing out silently."""

from __future__ import annotations

from pathlib import Path

from tests.flow.on_daytona import NOT_THERE, ON_DAYTONA

HERE = Path(__file__).parent


def test_every_file_of_stories_is_played_on_daytona_or_says_why_not() -> None:
    files = {path.name for path in HERE.glob("test_*.py")} - {Path(__file__).name}
    whole = {name for name in ON_DAYTONA if "::" not in name}
    assert files - whole == set(NOT_THERE)


def test_every_test_on_the_list_is_there() -> None:
    for name in ON_DAYTONA:
        file, _, test = name.partition("::")
        assert f"def {test}(" in (HERE / file).read_text() if test else (HERE / file).exists(), name
