"""What tests need of the machine: skipped with the reason where it is missing, failed where it is required.

ISSUEWRIGHT_REQUIRE names, comma-separated, what must be there (`bubblewrap`, `postgres`): CI sets it, so that a test
that silently never runs can't look green.
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from app.observability.logging import configure_logging
from app.sandbox.bubblewrap import BubblewrapSandboxes
from app.sandbox.local import LocalHost

REQUIRED = {word.strip() for word in os.environ.get("ISSUEWRIGHT_REQUIRE", "").split(",") if word.strip()}


@cache
def _missing_bubblewrap() -> str | None:
    with tempfile.TemporaryDirectory(prefix="iw-") as name:
        probe = asyncio.run(BubblewrapSandboxes(LocalHost(Path(name), Path(name) / "gw")).probe())
    return None if probe.ok else f"bubblewrap does not work here: {probe.detail}"


def _missing_postgres() -> str | None:
    return None if os.environ.get("ISSUEWRIGHT_TEST_POSTGRES_URL") else "no ISSUEWRIGHT_TEST_POSTGRES_URL"


NEEDS: Mapping[str, Callable[[], str | None]] = {
    "bubblewrap": _missing_bubblewrap,
    "postgres": _missing_postgres,
}
"""What a test may be marked to need (`needs_…`), and why it is missing here; None = it is there."""


def pytest_configure() -> None:
    unknown = REQUIRED - set(NEEDS)
    if unknown:
        raise pytest.UsageError(
            f"ISSUEWRIGHT_REQUIRE: {', '.join(sorted(unknown))} is none of {', '.join(NEEDS)}"
        )


def pytest_runtest_setup(item: pytest.Item) -> None:
    for need, missing in NEEDS.items():
        reason = missing() if item.get_closest_marker(f"needs_{need}") else None
        if reason is not None:
            pytest.skip(reason)


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
