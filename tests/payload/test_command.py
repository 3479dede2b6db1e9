"""The repository's own commands end with all they started, whenever they are cut."""

from __future__ import annotations

import asyncio
import gc
import time
import warnings
from pathlib import Path

import pytest

from sandbox_payload.command import run_command


async def gone(pid: int) -> None:
    async with asyncio.timeout(5):
        while Path(f"/proc/{pid}").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text():
            await asyncio.sleep(0.01)


def with_child(pid_file: Path) -> str:
    """A shell that waits for its child, whose id it writes down."""
    return f"sleep 60 & echo $! >{pid_file}; wait"


async def test_command_cut_by_its_limit_is_killed_with_its_children(tmp_path: Path) -> None:
    done = await run_command(with_child(tmp_path / "pid"), tmp_path, 1)
    assert done.exit_code is None
    await gone(int((tmp_path / "pid").read_text()))


async def test_command_cancelled_while_it_is_being_started_is_killed_with_its_children(
    tmp_path: Path,
) -> None:
    (tmp_path / "pid").touch()
    task = asyncio.ensure_future(run_command(with_child(tmp_path / "pid"), tmp_path, 60))
    for _ in range(3):
        await asyncio.sleep(0)
    deadline = time.monotonic() + 10
    while not (written := (tmp_path / "pid").read_text().strip()) and time.monotonic() < deadline:
        time.sleep(0.01)  # the shell runs, and the loop has not got round to its output yet
    task.cancel()
    async with asyncio.timeout(10):
        with pytest.raises(asyncio.CancelledError):
            await task
    await gone(int(written))


async def test_command_that_can_not_be_started_and_is_cancelled_is_only_cancelled(tmp_path: Path) -> None:
    task = asyncio.ensure_future(run_command("true", tmp_path / "missing", 60))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_command_cut_by_its_limit_is_collected_before_its_event_loop_ends(tmp_path: Path) -> None:
    """Else Python says so at some later time, whoever runs then."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        for _ in range(20):
            asyncio.run(run_command("sleep 60", tmp_path, 0.01))
            gc.collect()
    assert not seen
