"""The sweep's report, a plugin of `make crash` (`-p tests.crash.report`): every point, what was done there, how it ended.

Tests note rows with `note`; they travel as a test's user properties, so that parallel workers can write one report.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from app.observability.crashpoints import POINTS

PROPERTY = "crash_row"
_rows: list[dict[str, Any]] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--crash-report", default=None, metavar="FILE", help="write the sweep's rows as JSON")


def note(request: pytest.FixtureRequest, where: str, what: str, *, reached: int, settled_s: float) -> None:
    """`where` is a point or a moment, `what` the fault, `reached` how often it came to be, `settled_s` the seconds from
    the last fault of the run to rest.
    """
    row = {"where": where, "what": what, "reached": reached, "settled_s": round(settled_s, 1)}
    request.node.user_properties.append((PROPERTY, row))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call":
        rows = [value for name, value in report.user_properties if name == PROPERTY]
        _rows.extend({**row, "outcome": report.outcome} for row in rows)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not _rows:
        return
    terminalreporter.section("crash points")
    terminalreporter.line(f"{'point or moment':<34}{'fault':<26}{'times':>5}{'settled in':>12}  outcome")
    for where, what, times, settled_s, outcome in _grouped():
        terminalreporter.line(f"{where:<34}{what:<26}{times:>5}{settled_s:>10.1f} s  {outcome}")
    never = sorted(POINTS - {row["where"] for row in _rows if row["reached"]})
    if never:
        terminalreporter.line(f"not reached in this run: {', '.join(never)}")
    worst = max(row["settled_s"] for row in _rows)
    terminalreporter.line(f"{len(_rows)} faults, the slowest settled in {worst:.1f} s")
    path = config.getoption("--crash-report")
    if path:
        Path(path).write_text(json.dumps({"faults": _rows, "not_reached": never}, indent=1) + "\n")


def _grouped() -> list[tuple[str, str, int, float, str]]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in _rows:
        found[row["where"], row["what"]].append(row)
    return [
        (
            where,
            what,
            sum(row["reached"] for row in rows),
            max(row["settled_s"] for row in rows),
            "failed" if any(row["outcome"] != "passed" for row in rows) else "passed",
        )
        for (where, what), rows in sorted(found.items())
    ]
