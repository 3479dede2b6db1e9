"""A sandbox that is ready before it is ordered: taken by the order that fits, in nobody's way otherwise."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from app.domain.ports import SandboxStatus
from app.domain.spare import SandboxSize
from app.sandbox.bubblewrap import BubblewrapSandboxes
from app.sandbox.local import LocalHost
from app.sandbox.process_table import list_descendants, read_table
from app.sandbox.spare import Spare
from app.sandbox.state_dir import StateDir
from sandbox_payload.wire import LOADED

from .support import PACE, App, Look, OrderOf, delete_all, kill, processes_with

pytestmark = pytest.mark.needs_bubblewrap

NAME = "iw-sbx-1"
SIZE = SandboxSize(memory_gb=1, cpu=1, disk_gb=1, time_limit_s=120)


@pytest.fixture
def host(tmp_path: Path, socket_dir: Path, payload: Path) -> LocalHost:
    pace = replace(PACE, spare_look_s=0.05, spare_after_s=0.0, spare_retry_s=0.1)
    return LocalHost(tmp_path / "home", socket_dir, payload, pace)


@pytest.fixture
async def sandboxes(host: LocalHost) -> AsyncIterator[BubblewrapSandboxes]:
    provider = BubblewrapSandboxes(host)
    yield provider
    await provider.aclose()
    await delete_all(provider)


@pytest.fixture
async def keeping(sandboxes: BubblewrapSandboxes) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(sandboxes.keep_spare(SIZE))
    yield task
    await _ended(task)


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def _spares(host: LocalHost) -> list[Path]:
    return sorted((host.home / "sandboxes").glob(".spare-*"))


def _inside(spare: Path) -> set[int]:
    """The processes of a spare that waits: its keeper, and in the walls forwarder and payload."""
    for pid in processes_with(f"--spare {spare}"):
        inside = [entry.pid for entry in list_descendants(read_table(), pid)]
        if len(inside) >= 4 and (spare / "state" / LOADED).exists():
            return {pid, *inside}
    return set()


async def _waiting(look: Look, host: LocalHost) -> set[int]:
    """Processes of the one spare, once it waits."""
    found: set[int] = await look.until(
        lambda: next(filter(None, map(_inside, _spares(host))), None), "a spare sandbox"
    )
    return found


async def test_order_that_fits_is_carried_out_by_the_spare(
    host: LocalHost,
    sandboxes: BubblewrapSandboxes,
    keeping: asyncio.Task[None],
    order_of: OrderOf,
    look: Look,
    app: App,
) -> None:
    waiting = await _waiting(look, host)
    await _ended(keeping)

    order = order_of("wait")
    await sandboxes.ensure_created(order)
    await look.report()

    assert look.directory.read_keeper_pid() in waiting
    assert waiting <= set(read_table())
    assert [sight.status for sight in await sandboxes.list_owned()] == [SandboxStatus.RUNNING]
    await sandboxes.ensure_stopped(NAME, 10)
    ended = await look.ended()
    assert (ended.exit_code, ended.detail, ended.labels) == (143, "stopped", order.labels)
    assert await sandboxes.fetch_log(NAME) == b"waiting\n"
    assert _spares(host) == []


async def test_spare_sees_what_any_sandbox_sees(
    host: LocalHost,
    sandboxes: BubblewrapSandboxes,
    keeping: asyncio.Task[None],
    order_of: OrderOf,
    look: Look,
    app: App,
) -> None:
    await _waiting(look, host)
    await _ended(keeping)
    order = order_of("look")
    await sandboxes.ensure_created(order)
    seen = await look.report()
    await look.ended()

    await sandboxes.ensure_deleted(NAME)
    await sandboxes.ensure_created(order)
    plain = await look.report()

    assert seen == plain
    assert seen["environment"]["SPEC_ID"] == "spec_1"
    assert seen["token"] == order.token


async def test_taken_spare_is_followed_by_another(
    host: LocalHost,
    sandboxes: BubblewrapSandboxes,
    keeping: asyncio.Task[None],
    order_of: OrderOf,
    look: Look,
    app: App,
) -> None:
    first = await _waiting(look, host)
    await sandboxes.ensure_created(order_of("wait"))

    second = await _waiting(look, host)

    assert not first & second


@pytest.mark.parametrize(
    "change", [{"memory_gb": 2}, {"allow_hosts": ("packages.example",)}, {"time_limit_s": 60}]
)
async def test_order_of_another_size_is_made_as_it_comes(
    host: LocalHost,
    sandboxes: BubblewrapSandboxes,
    keeping: asyncio.Task[None],
    order_of: OrderOf,
    look: Look,
    app: App,
    change: dict[str, object],
) -> None:
    waiting = await _waiting(look, host)

    await sandboxes.ensure_created(order_of("look", **change))

    assert (await look.ended()).exit_code == 0
    assert look.directory.read_keeper_pid() not in waiting
    assert waiting <= set(read_table())


async def test_spare_goes_with_the_worker_that_made_it(host: LocalHost, look: Look) -> None:
    root = Path(__file__).resolve().parents[2]
    worker = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("spare_maker.py"))],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(root), *sys.path))},
    )
    with worker:
        assert worker.stdin
        worker.stdin.write(pickle.dumps((host, SIZE)))
        worker.stdin.close()
        waiting = await _waiting(look, host)
        worker.kill()

    await look.until(lambda: not waiting & set(read_table()), "end of the spare")


async def test_clean_stop_leaves_nothing_of_a_spare(
    host: LocalHost, sandboxes: BubblewrapSandboxes, keeping: asyncio.Task[None], look: Look
) -> None:
    waiting = await _waiting(look, host)
    await _ended(keeping)
    (directory,) = _spares(host)
    keeper, groups = set(processes_with(f"--spare {directory}")), StateDir(directory).read_cgroups()

    await sandboxes.aclose()

    assert not (waiting - keeper) & set(read_table()), "closed is over"
    assert _spares(host) == []
    assert not any(group.exists() for group in groups)
    await look.until(lambda: not keeper & set(read_table()), "end of the keeper")


async def test_spare_that_died_is_in_no_orders_way_and_is_made_again(
    host: LocalHost,
    sandboxes: BubblewrapSandboxes,
    keeping: asyncio.Task[None],
    order_of: OrderOf,
    look: Look,
    app: App,
) -> None:
    waiting = await _waiting(look, host)
    (directory,) = _spares(host)
    groups = StateDir(directory).read_cgroups()
    for pid in processes_with(f"--spare {directory}"):
        kill(pid)
    await look.until(lambda: not waiting & set(read_table()), "end of the spare")
    await look.until(lambda: directory not in _spares(host), "end of its directory")
    assert not any(group.exists() for group in groups), "its keeper could not remove them"

    await sandboxes.ensure_created(order_of("look"))

    assert (await look.ended()).exit_code == 0
    assert not waiting & await _waiting(look, host)


async def test_spare_whose_payload_ends_then_the_log_says_how(
    host: LocalHost,
    keeping: asyncio.Task[None],
    look: Look,
    caplog: pytest.LogCaptureFixture,
) -> None:
    waiting = await _waiting(look, host)
    (keeper,) = processes_with(f"--spare {_spares(host)[0]}")
    kill(max(waiting - {keeper}))

    await look.until(lambda: caplog.messages, "the warning")
    assert "has ended by itself: " in caplog.messages[0]
    assert "its payload ended with 137" in caplog.messages[0]


async def test_worker_that_dies_before_it_tells_the_keeper_leaves_an_order_that_is_carried_out(
    host: LocalHost,
    sandboxes: BubblewrapSandboxes,
    keeping: asyncio.Task[None],
    order_of: OrderOf,
    look: Look,
    app: App,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = await _waiting(look, host)
    await _ended(keeping)
    monkeypatch.setattr(Spare, "hand_over", lambda _spare, _name: None)

    await sandboxes.ensure_created(order_of("look"))
    await look.until(lambda: not waiting & set(read_table()), "end of the spare")
    await BubblewrapSandboxes(host).ensure_created(order_of("look"))

    assert (await look.ended()).exit_code == 0
    assert look.directory.read_keeper_pid() not in waiting


async def test_start_takes_dead_spares_and_leaves_one_that_waits(
    host: LocalHost, sandboxes: BubblewrapSandboxes, keeping: asyncio.Task[None], look: Look
) -> None:
    await _waiting(look, host)
    (waits,) = _spares(host)
    dead = StateDir(host.home / "sandboxes" / ".spare-dead")
    (dead.path / "work").mkdir(parents=True)
    for path in (waits, dead.path):
        os.utime(path, (0, 0))

    await BubblewrapSandboxes(host).probe()

    assert _spares(host) == [waits]


async def test_order_comes_before_the_spare_has_loaded_then_it_gets_a_sandbox_that_works(
    host: LocalHost, sandboxes: BubblewrapSandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    keeping = asyncio.create_task(sandboxes.keep_spare(SIZE))
    await look.until(lambda: _spares(host), "a spare that is being made")
    await sandboxes.ensure_created(order_of("look"))
    sight = await look.ended()
    await _ended(keeping)
    assert sight.exit_code == 0


async def test_worker_that_dies_right_after_it_told_the_keeper_leaves_a_sandbox_that_works(
    host: LocalHost,
    sandboxes: BubblewrapSandboxes,
    keeping: asyncio.Task[None],
    order_of: OrderOf,
    look: Look,
    app: App,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await _waiting(look, host)
    await _ended(keeping)

    def tell_and_die(spare: Spare, name: str) -> None:
        spare._keeper.sendall(name.encode())
        spare._keeper.close()

    monkeypatch.setattr(Spare, "hand_over", tell_and_die)
    monkeypatch.setattr(Spare, "discard", lambda _spare: None)
    await sandboxes.ensure_created(order_of("look"))
    assert (await look.ended()).exit_code == 0
