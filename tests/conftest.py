"""What tests need of the machine: skipped with the reason where it is missing, failed where it is required.

ISSUEWRIGHT_REQUIRE names, comma-separated, what must be there (`bubblewrap`, `postgres`, `redis`): CI sets it, so that
a test that silently never runs can't look green.

Databases and Redis are those of one machine, an SQLite file and the embedded server; with `--servers` those of a team,
a PostgreSQL database and a redis-server. With `--sandbox daytona` the stories of tests/flow that
tests/flow/on_daytona.py names play on a simulated Daytona, and no others.
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings as hypothesis_settings
from sqlalchemy import create_engine, make_url
from sqlalchemy.ext.asyncio import create_async_engine

from app.db.models import Base
from app.observability.logging import configure_logging
from app.sandbox.bubblewrap import BubblewrapSandboxes
from app.sandbox.local import LocalHost
from tests.cli.warm import WarmCommands
from tests.flow.on_daytona import is_on_daytona
from tests.servers import execute, find_postgres, find_redis, new_database
from tests.whole import WHOLE

# How fast examples are made says something of the machine, and nothing of what is tested.
hypothesis_settings.register_profile(
    "any_speed",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
hypothesis_settings.load_profile("any_speed")

REQUIRED = {word.strip() for word in os.environ.get("ISSUEWRIGHT_REQUIRE", "").split(",") if word.strip()}


@cache
def _missing_bubblewrap() -> str | None:
    with tempfile.TemporaryDirectory(prefix="iw-") as name:
        probe = asyncio.run(BubblewrapSandboxes(LocalHost(Path(name), Path(name) / "gw")).probe())
    return None if probe.ok else f"bubblewrap does not work here: {probe.detail}"


def _missing_postgres() -> str | None:
    return None if find_postgres() else "no ISSUEWRIGHT_TEST_POSTGRES_URL"


def _missing_redis() -> str | None:
    return None if find_redis() else "no redis-server on PATH"


NEEDS: Mapping[str, Callable[[], str | None]] = {
    "bubblewrap": _missing_bubblewrap,
    "postgres": _missing_postgres,
    "redis": _missing_redis,
}
"""What a test may be marked to need (`needs_…`), and why it is missing here; None = it is there."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--servers", action="store_true", help="use PostgreSQL and an external Redis")
    parser.addoption("--sandbox", choices=("daytona",), help="play stories with their agents there")


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's background job; commands started from here would never hear Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    missing = [_missing_postgres(), _missing_redis()] if config.getoption("--servers") else []
    if any(missing):
        raise pytest.UsageError("--servers: " + ", ".join(filter(None, missing)))
    unknown = REQUIRED - set(NEEDS)
    if unknown:
        raise pytest.UsageError(
            f"ISSUEWRIGHT_REQUIRE: {', '.join(sorted(unknown))} is none of {', '.join(NEEDS)}"
        )


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--sandbox"):
        left_out = [item for item in items if not is_on_daytona(item.nodeid)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if is_on_daytona(item.nodeid)]
    for item in items:
        file, _, rest = item.nodeid.partition("::")
        if file in WHOLE or f"{file}::{rest.partition('[')[0]}" in WHOLE:
            item.add_marker("whole")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for need, missing in NEEDS.items():
        reason = missing() if item.get_closest_marker(f"needs_{need}") else None
        if reason is not None:
            pytest.skip(reason)
    if item.config.getoption("--servers") and item.get_closest_marker("sqlite_only"):
        pytest.skip("handles the database as a file")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Whoever skipped it: a test of something required has failed."""
    report = yield
    needed = {need for need in REQUIRED if item.get_closest_marker(f"needs_{need}")}
    if report.skipped and needed:
        report.outcome = "failed"
        report.longrepr = f"ISSUEWRIGHT_REQUIRE={','.join(sorted(needed))}, but skipped: {report.longrepr}"
    return report


@pytest.fixture
def log_output() -> Iterator[io.StringIO]:
    """What is logged meanwhile, whichever test configured the loggers first (they keep their first configuration)."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    configure_logging("test", "json", "debug", stream)
    yield stream
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(scope="session")
def on_servers(request: pytest.FixtureRequest) -> bool:
    """Whether this run uses PostgreSQL and an external Redis."""
    return bool(request.config.getoption("--servers"))


@pytest.fixture(scope="session")
def empty_database(on_servers: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a database with all tables, made once: making them takes longer than most tests."""
    if on_servers:
        with new_database() as url:
            asyncio.run(_create_tables(url))
            yield url
        return
    path = tmp_path_factory.mktemp("database") / "empty.db"
    engine = create_engine(f"sqlite:///{path}")
    Base.metadata.create_all(engine)
    engine.dispose()
    yield f"sqlite+aiosqlite:///{path}"


async def _create_tables(url: str) -> None:
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    await engine.dispose()


@pytest.fixture
def database_url(on_servers: bool, empty_database: str, tmp_path: Path) -> str:
    """A database with all tables and no rows, for one test."""
    if on_servers:
        execute(
            empty_database, *(f"delete from {table.name}" for table in reversed(Base.metadata.sorted_tables))
        )
        return empty_database
    path = tmp_path / "test.db"
    shutil.copy(make_url(empty_database).database or "", path)
    return f"sqlite+aiosqlite:///{path}"


@pytest.fixture(scope="session")
def warm_commands() -> Iterator[WarmCommands]:
    """The command line with its libraries loaded, for tests that start it many times."""
    commands = WarmCommands()
    yield commands
    commands.close()
