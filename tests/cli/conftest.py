from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Issuewright, new_key
from tests.cli.warm import WarmCommands


@pytest.fixture(scope="session")
def key() -> str:
    return new_key()


@pytest.fixture
def home() -> Iterator[Path]:
    """A short ISSUEWRIGHT_HOME: pytest's own temporary paths are too long for sockets."""
    with tempfile.TemporaryDirectory(prefix="iw-") as path:
        yield Path(path)


@pytest.fixture
def issuewright(home: Path, key: str, warm_commands: WarmCommands) -> Issuewright:
    """The command with complete, valid settings."""
    return Issuewright(home, key, warm_commands)


@pytest.fixture(scope="session")
def _migrated(tmp_path_factory: pytest.TempPathFactory, key: str, warm_commands: WarmCommands) -> Path:
    home = tmp_path_factory.mktemp("migrated")
    assert Issuewright(home, key, warm_commands).run("migrate").code == 0
    return home / "issuewright.db"


@pytest.fixture
def migrated(issuewright: Issuewright, _migrated: Path) -> Path:
    """The database as `issuewright migrate` leaves it."""
    return Path(shutil.copy(_migrated, issuewright.home))
