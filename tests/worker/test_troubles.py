"""GitHub says no, later, or nothing; a step breaks; a pace is kept."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from app.db.pace import DatabasePace
from app.db.sandboxes import set_sandbox
from app.domain.errors import RetryAt, SettingsError, Unexpected
from app.domain.ids import InstallationId
from app.domain.ports import SandboxSight
from app.domain.states import SpecState
from app.observability.crashpoints import CrashPointReached, arm, crashpoint
from tests.worker.bench import Bench
from tests.worker.test_life import start
from worker.operations import HOLD, run_operation


def edits(bench: Bench) -> list[dict[str, Any]]:
    return [one for one in bench.writes() if one["method"] == "PATCH" and "/comments/" in one["path"]]


async def test_thousand_events_in_a_minute_make_few_edits_and_the_last_state_is_told(bench: Bench) -> None:
    number = await start(bench)
    before = len(edits(bench))
    for tools in range(4, 1001, 4):  # the web process takes several events in with one commit
        await bench.report(tools, last_tool="Bash")
        bench.clock.add(0.24)
        if tools % 20 == 0:
            await bench.turn(listen=False)
    during = len(edits(bench)) - before
    assert 3 <= during <= 9
    await bench.pass_time(10, 1)
    assert "1000 tool calls" in bench.status(number)
    total = len(edits(bench))
    await bench.pass_time(60)
    assert len(edits(bench)) == total


async def test_failing_step_is_tried_eight_times_with_pauses_then_told_once(bench: Bench) -> None:
    calls: list[float] = []

    async def broken(name: str) -> SandboxSight:
        calls.append(bench.clock().timestamp())
        raise Unexpected("nobody planned for this")

    number = await start(bench)
    bench.sandboxes.fetch_sight = broken  # type: ignore[method-assign]
    async with bench.db.write() as session:  # its silence would be news, and wake the work before its time
        box = (await bench.boxes())[0]
        await set_sandbox(session, box.id, bench.clock(), last_heartbeat_at=bench.clock.far)
    await bench.pass_time(200, 5)
    assert len(calls) == 8
    gaps = [later - earlier for earlier, later in pairwise(calls)]
    assert gaps[-1] >= 60
    assert gaps[0] < 15
    assert (await bench.spec()).state is SpecState.FAILED
    assert "8 times in a row" in bench.status(number)
    assert "nobody planned" not in bench.status(number)
    before = len(bench.writes())
    await bench.pass_time(600, 60)
    assert len(bench.writes()) == before


async def test_time_to_try_again_is_stored_and_nothing_happens_before_it(bench: Bench) -> None:
    calls = 0

    async def later(name: str) -> SandboxSight:
        nonlocal calls
        calls += 1
        raise RetryAt("not now", bench.clock() + timedelta(seconds=120))

    await start(bench)
    bench.sandboxes.fetch_sight = later  # type: ignore[method-assign]
    await bench.pass_time(5)
    assert calls == 1
    assert ((await bench.spec()).due_at - bench.clock()).total_seconds() > 100
    await bench.pass_time(100, 10)
    assert calls == 1
    await bench.pass_time(30, 10)
    assert calls == 2
    assert (await bench.spec()).failures == 0


async def test_secondary_limit_silences_the_installation_until_its_time_and_no_other(bench: Bench) -> None:
    bench.github.add_fault(method="WRITE", path=f"{bench.name}/", status=403, times=1,
                           message="You have exceeded a secondary rate limit.", headers={"Retry-After": "90"})  # fmt: skip
    number = bench.open_issue()
    bench.label(number)
    await bench.rest()
    hits = len(bench.github.requests())
    await bench.pass_time(80, 10)
    assert len(bench.github.requests()) == hits, "silence until the time GitHub named"
    pace = DatabasePace(bench.db, bench.clock)
    with pytest.raises(RetryAt):
        await pace.before_read(InstallationId(bench.installation_id))
    for other in (InstallationId(999_998), InstallationId(999_999)):
        await pace.before_read(other)
        await pace.before_write(other)
    await bench.pass_time(20, 5)
    assert len(bench.sandboxes.orders) == 1
    assert len(bench.github.pulls(bench.name)) == 1


async def test_server_errors_pass_and_nothing_is_doubled(bench: Bench) -> None:
    bench.github.add_fault(method="*", path=f"/repos/{bench.name}", status=502, times=4)
    number = bench.open_issue()
    bench.label(number)
    await bench.rest()
    await bench.pass_time(120, 5)
    assert len(bench.sandboxes.orders) >= 1
    assert len(bench.github.pulls(bench.name)) == 1
    assert bench.status(number)


async def test_labeler_who_lost_access_before_the_start_is_told(bench: Bench) -> None:
    number = bench.open_issue()
    bench.label(number, "carol")
    await bench.receive(bench.new_deliveries())
    await bench.take_in()
    bench.github.set_collaborator(bench.name, "carol", "none")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.FAILED
    assert "no longer has write access" in bench.status(number)
    assert bench.branches() == {"main"}
    assert bench.github.pulls(bench.name) == []


async def test_app_suspended_mid_run_ends_it_and_takes_the_sandbox_down(bench: Bench) -> None:
    await start(bench)
    before = len(bench.writes())
    bench.github.suspend(bench.installation_id, "alice")
    await bench.receive(
        [
            one
            for one in bench.github.deliveries("installation", "suspend")
            if one["payload"]["installation"]["id"] == bench.installation_id
        ]
    )
    await bench.rest()
    await bench.pass_time(60)
    found = await bench.spec()
    assert found.state is SpecState.CANCELLED
    assert found.concluded_at is not None
    assert bench.sandboxes.sights == {}
    assert len(bench.writes()) == before


async def test_step_that_breaks_right_after_its_effect_is_repeated_without_a_second_one(bench: Bench) -> None:
    points = ("start_commit", "ref", "open_pull", "check", "status", "sandbox")
    arm(",".join(f"{point}.after=raise" for point in points), bench.scratch)
    try:
        number = bench.open_issue()
        bench.label(number)
        await bench.pass_time(60, 3)
        assert {path.name for path in (bench.scratch / "crashed").iterdir()} == {
            f"{one}.after" for one in points
        }
    finally:
        arm("", bench.scratch)
    assert len(bench.sandboxes.orders) == 1
    assert len(bench.github.pulls(bench.name)) == 1
    assert len(bench.github.check_runs(bench.name)) == 1
    assert len(bench.branches()) == 2
    assert bench.status(number)


def test_unknown_crash_point_is_refused(bench: Bench) -> None:
    with pytest.raises(SettingsError, match="no such point"):
        arm("brnch.before=kill", bench.scratch)


async def test_operation_of_a_killed_worker_runs_again_after_its_hold_and_once_only(bench: Bench) -> None:
    runs: list[str] = []
    release = asyncio.Event()

    async def hangs() -> None:
        runs.append("first")
        await release.wait()

    async def works() -> None:
        runs.append("second")

    assert not await run_operation(bench.parts, "op:killed", hangs, patience_s=0.05)
    dead = asyncio.all_tasks() - {asyncio.current_task()}
    other = bench.another_worker()
    assert not await run_operation(other, "op:killed", works, patience_s=0.05)
    bench.clock.add(HOLD.total_seconds() + 1)
    assert await run_operation(other, "op:killed", works, patience_s=5)
    assert runs == ["first", "second"]
    release.set()
    await asyncio.wait([task for task in dead if not task.done()], timeout=5)
    assert await run_operation(other, "op:killed", works, patience_s=5), "the late one settles nothing"
    assert runs == ["first", "second"]


async def test_failed_operation_tells_its_error_once_and_can_be_started_again(bench: Bench) -> None:
    async def broken() -> None:
        raise KeyError("a bug")

    async def works() -> None: ...

    with pytest.raises(KeyError):
        await run_operation(bench.parts, "op:broken", broken, patience_s=5)
    assert await run_operation(bench.parts, "op:broken", works, patience_s=5)


async def test_armed_point_acts_once_for_a_state_directory(bench: Bench) -> None:
    for _ in range(2):
        arm("commit.before=raise", bench.scratch)
        if not (bench.scratch / "crashed" / "commit.before").exists():
            with pytest.raises(CrashPointReached):
                crashpoint("commit.before")
        crashpoint("commit.before")
    arm("", bench.scratch)
