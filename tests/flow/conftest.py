"""One running product per test process; every test has repositories (and installations) of its own in it."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from app.sandbox.bubblewrap import BubblewrapSandboxes
from app.sandbox.local import LocalHost
from tests.conftest import REQUIRED
from tests.flow.combination import chosen_servers
from tests.flow.world import World


def _find_provider() -> str:
    """The isolated sandbox where it works, else a plain process: the model is scripted."""
    with TemporaryDirectory(prefix="iw-", dir="/tmp") as name:
        probe = asyncio.run(BubblewrapSandboxes(LocalHost(Path(name), Path(name) / "gw")).probe())
    assert probe.ok or "bubblewrap" not in REQUIRED, probe.detail
    return "bubblewrap" if probe.ok else "process"


@pytest.fixture(scope="session")
def provider(request: pytest.FixtureRequest) -> str:
    """Where agents work: what `--sandbox` names, else this machine."""
    if sys.platform != "linux":
        pytest.skip("looks at /proc")
    return request.config.getoption("--sandbox") or _find_provider()


@pytest.fixture(scope="session")
def shared_world(provider: str, on_servers: bool) -> Iterator[World]:
    with chosen_servers(on_servers) as servers, World.running(provider, servers) as world:
        yield world


@pytest.fixture
def world(shared_world: World) -> World:
    shared_world.repositories = []
    return shared_world


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    world = getattr(item, "funcargs", {}).get("world")
    if report.failed and isinstance(world, World):
        try:
            text = "\n".join(repository.report() for repository in world.repositories)
        except (sqlite3.Error, OSError, LookupError) as error:
            text = f"no report: {error!r}"
        report.sections.append(("repositories", text))
        report.sections.append(("product log", world.log_tail("up")))
