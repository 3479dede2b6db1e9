"""The list of slow tests names tests that exist: a renamed one would come back into `make test` unseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.whole import WHOLE

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", WHOLE)
def test_every_slow_test_that_is_listed_exists(name: str) -> None:
    file, _, function = name.partition("::")
    assert f"def {function}" in (ROOT / file).read_text()
