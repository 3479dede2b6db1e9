"""The parts of the measurement of a whole run that need no whole run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.planning import measure_sixty_tasks
from bench.run import measure_floor, resident_mb, simulated_model
from tests.bench.left import children


async def test_the_sdk_alone_then_seconds_until_the_model_was_asked(tmp_path: Path) -> None:
    before = children()
    async with simulated_model(tmp_path) as (url, key):
        assert 0 < await measure_floor(url, key) < 30
    assert children() <= before


def test_memory_then_by_what_the_children_run() -> None:
    wait = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with (
        subprocess.Popen([*wait, "app.web"], stdin=subprocess.PIPE) as web,
        subprocess.Popen([*wait, "worker"], stdin=subprocess.PIPE) as worker,
    ):
        found = resident_mb(os.getpid())
        web.communicate()
        worker.communicate()
    assert {"web", "worker"} <= set(found)
    assert all(1 < found[role] < 100 for role in ("web", "worker"))


async def test_plan_of_sixty_tasks_then_a_time_of_our_own() -> None:
    assert 0 < await measure_sixty_tasks(2) < 10_000
