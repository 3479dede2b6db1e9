"""Worlds in which processes are killed at named points, one per test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.crash.fleet import Fleet
from tests.flow.conftest import provider, pytest_runtest_makereport

__all__ = ["provider", "pytest_runtest_makereport"]


@pytest.fixture(scope="session")
def shared_world(provider: str) -> Iterator[Fleet]:
    with Fleet.running(provider) as world:
        yield world


@pytest.fixture
def world(shared_world: Fleet) -> Fleet:
    shared_world.repositories = []
    return shared_world
