from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from app.domain.ports import Sandboxes, SandboxStatus
from app.sandbox.bubblewrap import BubblewrapSandboxes
from app.sandbox.local import LocalHost
from app.sandbox.process_table import read_table
from app.sandbox.state_dir import StateDir

from .support import PACE, App, Look, OrderOf, delete_all, kill

pytestmark = pytest.mark.needs_bubblewrap


@pytest.fixture
async def sandboxes(host: LocalHost) -> AsyncIterator[Sandboxes]:
    pace = replace(
        PACE,
        wall_margin_s=0,
        app_silence_s=1,
        max_processes=200,
        log_segment_bytes=1_000_000,
        log_segments=3,
    )
    provider = BubblewrapSandboxes(replace(host, pace=pace))
    yield provider
    await delete_all(provider)


async def test_time_over_lets_the_payload_wrap_up_and_ends_it(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("wait", time_limit_s=1))

    ended = await look.ended()

    assert (ended.status, ended.exit_code, ended.detail) == (SandboxStatus.EXITED, 143, "wall_clock")
    assert (look.directory.state / "wrapped-up").exists()


async def test_time_over_kills_a_payload_that_does_not_listen(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("ignore", time_limit_s=1))

    ended = await look.ended()

    assert (ended.exit_code, ended.detail) == (137, "wall_clock")


async def test_app_that_stays_away_ends_the_sandbox(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("wait"))
    await look.report()
    await app.stop()

    ended = await look.ended()

    assert (ended.exit_code, ended.detail) == (143, "app_gone")


async def test_too_much_memory_ends_the_sandbox(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("eat_memory"))

    ended = await look.ended()

    assert (ended.exit_code, ended.detail) == (137, "memory")


async def test_files_that_can_not_be_counted_in_time_are_too_many(
    host: LocalHost, order_of: OrderOf, look: Look, app: App
) -> None:
    provider = BubblewrapSandboxes(replace(host, pace=replace(PACE, disk_count_s=0.0)))
    try:
        await provider.ensure_created(order_of("wait"))
        ended = await look.ended()
    finally:
        await delete_all(provider)
    assert (ended.exit_code, ended.detail) == (137, "disk")


async def test_full_disk_ends_the_sandbox(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("fill_disk"))

    ended = await look.ended()

    assert (ended.exit_code, ended.detail) == (137, "disk")


async def test_fork_bomb_is_ended_and_leaves_nothing(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    before = len(read_table())
    await sandboxes.ensure_created(order_of("bomb", memory_gb=8))

    ended = await look.ended()

    assert (ended.exit_code, ended.detail) == (137, "processes")
    await look.until(lambda: len(read_table()) < before + 100, "end of the bomb's processes")


async def test_flood_of_output_is_capped_and_its_end_kept(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("flood"))

    assert (await look.ended()).exit_code == 0
    kept = sum(path.stat().st_size for path in look.directory.log.iterdir())
    assert kept <= 3_000_000
    total = 20_000 * 1024 + len("the last line\n")
    assert await sandboxes.fetch_log("iw-sbx-1", offset=total - 14) == b"the last line\n"
    assert len(await sandboxes.fetch_log("iw-sbx-1", offset=total - 100_000, limit=200_000)) == 100_000
    assert len(await sandboxes.fetch_log("iw-sbx-1", offset=0, limit=1000)) == 1000
    assert await sandboxes.fetch_log("iw-sbx-1", offset=total) == b""
    tail = await sandboxes.fetch_log_tail("iw-sbx-1", 500_000)
    assert (len(tail), tail[-14:]) == (500_000, b"the last line\n")
    assert len(await sandboxes.fetch_log_tail("iw-sbx-1", 10_000_000)) == kept


async def test_limits_of_files_and_dumps_hold_inside(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("wait"))
    seen = await look.report()
    assert seen
    started = StateDir(look.directory.path).read_started()
    assert started is not None

    with open(f"/proc/{started.pid}/limits", encoding="ascii") as file:  # noqa: PTH123
        limits = {line[:25].strip(): line[26:47].strip() for line in file}

    assert limits["Max core file size"] == "0"
    assert limits["Max file size"] == str(PACE.gb_bytes)
    assert limits["Max address space"] == "unlimited"


async def test_kernels_groups_are_used_where_allowed_and_gone_afterwards(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("wait"))
    await look.report()
    started = look.directory.read_started()
    assert started is not None
    cgroups = look.directory.read_cgroups()
    if not cgroups:
        pytest.skip("control groups can't be made here")
    for group in cgroups:
        members = {int(line) for line in (group / "cgroup.procs").read_text().split()}
        assert started.pid in members
        assert len(members) >= 4
    keeper = look.directory.read_keeper_pid()
    assert keeper is not None

    kill(keeper)
    await look.ended()
    await sandboxes.ensure_deleted("iw-sbx-1")

    assert [group for group in cgroups if group.exists()] == []
