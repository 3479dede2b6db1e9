from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Issuewright, new_key


@pytest.fixture(scope="session")
def key() -> str:
    return new_key()


@pytest.fixture
def home() -> Iterator[Path]:
    """A short ISSUEWRIGHT_HOME: pytest's own temporary paths are too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="iw-") as path:
        yield Path(path)


@pytest.fixture
def issuewright(home: Path, key: str) -> Issuewright:
    """The command with complete, valid settings."""
    return Issuewright(home, key)
