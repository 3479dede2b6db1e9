"""Rounds over live sandboxes, and what follows from what they find."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import event

from app.db.artifacts import find_chunk
from app.db.engine import Database
from app.db.processes import record_beat
from app.db.sandboxes import find_artifact, set_sandbox
from app.db.tasks import list_tasks
from app.domain.errors import RetryAt
from app.domain.labels import LabelNames
from app.domain.ports import GitHub, SandboxSight, SandboxStatus
from app.domain.states import SandboxState, SpecState
from app.domain.supervision import LOG_TAIL
from tests.db.rows import T0, add_sandbox, add_spec, after, get_sandbox, get_spec, set_spec
from tests.worker.bench import Bench
from tests.worker.sandboxes import ScriptedSandboxes
from tests.worker.test_life import start
from worker.parts import Limits, Parts
from worker.supervise.sandboxes import SandboxRounds, Seen

# ---------------------------------------------------------------- rounds: rows and a provider's list


@dataclass
class Watch:
    """A worker that only watches, on a clock that the test sets."""

    db: Database
    sandboxes: ScriptedSandboxes
    parts: Parts
    now: datetime = T0

    async def look_at(self, seconds: float) -> Seen | None:
        self.now = after(seconds)
        return await SandboxRounds(self.parts).look()

    async def watch_until(self, seconds: float) -> None:
        """As a worker does, every 15 seconds."""
        at = (self.now - T0).total_seconds()
        while at < seconds:
            at = min(at + 15, seconds)
            await self.look_at(at)

    async def add(self, **values: Any) -> tuple[str, str]:
        """A spec at work and its running sandbox, which the provider has; (spec, sandbox)."""
        number = len(self.sandboxes.sights) + 1
        spec_id = await add_spec(self.db, issue_number=number, trigger_key=f"label@{number}")
        await set_spec(self.db, spec_id, state=SpecState.IMPLEMENTING, version=1, stepped_version=1)
        fields = {"host_id": "host", "started_at": T0, "ordered_at": T0, "last_heartbeat_at": T0}
        box = await add_sandbox(self.db, spec_id, **{**fields, **values})
        name = f"iw-test-{box}"
        self.sandboxes.sights[name] = SandboxSight(name, SandboxStatus.RUNNING)
        return spec_id, box

    async def trouble_of(self, box: str) -> str | None:
        return (await get_sandbox(self.db, box)).trouble


@pytest.fixture
async def watch(database_url: str, tmp_path: Path) -> AsyncIterator[Watch]:
    db, sandboxes = Database(database_url), ScriptedSandboxes()
    parts = Parts(
        db=db, github=cast("GitHub", None), sandboxes=sandboxes, clock=lambda: found.now, labels=LabelNames(),
        limits=Limits(4, 2, 8, "model", ("model",), 10.0, 150, 3600, 600, ()), home=tmp_path, host_id="host",
        worker_id="w1", instance="test", web_url="", token_key=b"key", model_ready=True, secrets=(),
    )  # fmt: skip
    found = Watch(db, sandboxes, parts)
    yield found
    await db.aclose()


async def test_silent_for_two_minutes_then_noted_once_and_its_spec_is_woken(watch: Watch) -> None:
    spec_id, box = await watch.add()
    await watch.watch_until(119)
    assert await watch.trouble_of(box) is None
    await watch.watch_until(180)
    assert await watch.trouble_of(box) == "no_heartbeat"
    spec = await get_spec(watch.db, spec_id)
    assert spec.version == spec.stepped_version + 1


async def test_worker_was_away_for_an_hour_then_living_sandboxes_get_their_time_to_report(
    watch: Watch,
) -> None:
    _, box = await watch.add()
    await watch.look_at(0)
    await watch.look_at(3000)
    assert await watch.trouble_of(box) is None
    await watch.watch_until(3100)
    assert await watch.trouble_of(box) is None
    await watch.watch_until(3200)
    assert await watch.trouble_of(box) == "no_heartbeat"


async def test_web_process_is_down_then_nobody_is_taken_for_dead(watch: Watch) -> None:
    _, box = await watch.add()
    async with watch.db.write() as session:
        await record_beat(session, "web-1", "web", "host", 1, "1", T0)
    await watch.watch_until(400)
    assert await watch.trouble_of(box) is None


async def test_provider_lost_it_then_noted_by_the_next_round_unless_it_is_too_new(watch: Watch) -> None:
    _, old = await watch.add()
    _, new = await watch.add(started_at=after(100), last_heartbeat_at=after(100))
    watch.sandboxes.sights.clear()
    await watch.look_at(110)
    assert await watch.trouble_of(old) == "absent"
    assert await watch.trouble_of(new) is None


async def test_provider_can_not_be_asked_then_the_databases_facts_still_count(watch: Watch) -> None:
    _, quiet = await watch.add()
    _, late = await watch.add(deadline_at=after(30))

    async def away() -> list[SandboxSight]:
        raise RetryAt("away", after(999))

    watch.sandboxes.list_owned = away  # type: ignore[method-assign]
    await watch.watch_until(60)
    assert await watch.trouble_of(late) == "time_limit"
    assert await watch.trouble_of(quiet) is None
    assert watch.sandboxes.deleted == []


async def test_result_comes_in_between_look_and_note_then_nothing_is_noted(watch: Watch) -> None:
    _, box = await watch.add(deadline_at=after(30))
    rounds = watch.sandboxes.list_owned

    async def list_owned() -> Any:
        async with watch.db.write() as session:
            await set_sandbox(session, box, watch.now, manifest_round=1)
        return await rounds()

    watch.sandboxes.list_owned = list_owned  # type: ignore[method-assign]
    await watch.look_at(60)
    assert await watch.trouble_of(box) is None


async def test_nobody_waits_for_it_any_more_then_removed_and_strangers_are_left_alone(watch: Watch) -> None:
    """Leftovers of crashed runs, by name and owner label; a machine without a row; a row without a machine."""
    _, failed = await watch.add(state=SandboxState.FAILED, ended_at=T0)
    _, gone = await watch.add(state=SandboxState.COMPLETED, ended_at=T0)
    ended_spec, left = await watch.add()
    await set_spec(watch.db, ended_spec, state=SpecState.CANCELLED, concluded_at=T0)
    _, elsewhere = await watch.add(host_id="another-host")
    watch.sandboxes.lose(f"iw-test-{gone}")
    others = {
        "iw-test-orphan": SandboxSight("iw-test-orphan", SandboxStatus.RUNNING, started_at=T0),
        "iw-test-young": SandboxSight("iw-test-young", SandboxStatus.RUNNING, started_at=after(80)),
        "iw-sibling-sbx": SandboxSight("iw-sibling-sbx", SandboxStatus.RUNNING, started_at=T0),
        "iw-test-claimed": SandboxSight(
            "iw-test-claimed", SandboxStatus.RUNNING, labels={"issuewright": "sibling"}, started_at=T0
        ),
    }
    watch.sandboxes.sights.update(others)
    watch.sandboxes.lose(f"iw-test-{elsewhere}")
    await watch.look_at(185)
    assert set(watch.sandboxes.deleted) == {f"iw-test-{failed}", f"iw-test-{left}", "iw-test-orphan"}
    assert set(watch.sandboxes.sights) == {"iw-test-young", "iw-sibling-sbx", "iw-test-claimed"}
    for box in (failed, gone, left):
        assert (await get_sandbox(watch.db, box)).removed_at is not None
    assert (await get_sandbox(watch.db, left)).state is SandboxState.COMPLETED
    assert (await get_sandbox(watch.db, elsewhere)).removed_at is None
    assert await watch.trouble_of(elsewhere) is None


async def test_many_workers_look_at_once_then_one_round_is_made(watch: Watch) -> None:
    await watch.add()
    workers = [replace(watch.parts, worker_id=f"w{number}") for number in range(5)]
    rounds = await asyncio.gather(*(SandboxRounds(parts).look() for parts in workers))
    assert [one for one in rounds if one is not None] == [Seen(watched=1)]


async def test_hundred_sandboxes_in_all_kinds_of_trouble_then_fewer_than_twenty_statements(
    watch: Watch,
) -> None:
    kinds: list[dict[str, Any]] = [{"deadline_at": T0}, {"spent_usd": 10.0}, {}]
    for number in range(30):
        await watch.add(**kinds[number % 3])
    statements: list[str] = []
    listen = watch.db.engine.sync_engine

    def note(*arguments: Any) -> None:
        statements.append(arguments[2])

    event.listen(listen, "before_cursor_execute", note)
    seen = await watch.look_at(65)
    event.remove(listen, "before_cursor_execute", note)
    assert seen == Seen(watched=30, troubles=20)
    assert len(statements) < 20


# ---------------------------------------------------------------- what follows


async def test_agents_process_is_killed_then_another_sandbox_goes_on_from_what_it_had(bench: Bench) -> None:
    number = await start(bench)
    first = bench.sandboxes.newest
    head = await bench.hand_in(
        status="failed", reason="cli_killed", detail="killed by SIGKILL", text="half\n"
    )
    bench.sandboxes.end(first.name, 1)
    await bench.rest()
    await bench.pass_time(15)
    second = bench.sandboxes.newest
    assert second.name != first.name
    assert bench.git("show", f"{second.start_sha}:work.txt") == "half\n"
    assert second.start_sha != head, "the App's own commit"
    await bench.hand_in()
    await bench.rest()
    bench.sandboxes.end(second.name, 0)
    await bench.pass_time(75, 15)
    assert "Done" in bench.status(number)
    assert bench.sandboxes.sights == {}
    runs = bench.github.check_runs(bench.name)
    assert sorted(run["conclusion"] for run in runs) == ["neutral", "neutral", "success"]


async def test_everything_was_down_for_a_day_then_the_work_goes_on_and_ends_with_its_check_concluded(
    bench: Bench,
) -> None:
    """No live sandbox, no open check run, no lost commit."""
    bench.parts = replace(bench.parts, limits=replace(bench.parts.limits, memory_max_gb=16))
    number = await start(bench)
    await bench.checkpoint("half\n")
    first = bench.sandboxes.newest.name
    bench.sandboxes.logs[first] = b"x" * 30_000_000 + b"the last words"
    bench.clock.add(24 * 3600)
    bench.sandboxes.end(first, 137)
    await bench.rest()
    await bench.pass_time(10)
    second = bench.sandboxes.newest
    assert second.name != first
    assert bench.git("show", f"{second.start_sha}:work.txt") == "half\n"
    assert [order.memory_gb for order in bench.sandboxes.orders.values()] == [4, 8]
    boxes = await bench.boxes()
    async with bench.db.read() as session:
        kept = await find_artifact(session, boxes[0].id, LOG_TAIL)
        assert kept is not None
        tail = await find_chunk(session, kept.id, 0)
    assert tail is not None
    assert tail.endswith(b"the last words")
    assert len(tail) == 65_536
    for _ in range(2):
        bench.clock.add(24 * 3600)
        bench.sandboxes.end(bench.sandboxes.newest.name, 137)
        await bench.rest()
        await bench.pass_time(30)
    assert [order.memory_gb for order in bench.sandboxes.orders.values()] == [4, 8, 16]
    assert (await bench.spec()).state is SpecState.FAILED
    assert "exit code 137" in bench.status(number)
    assert bench.sandboxes.sights == {}
    runs = bench.github.check_runs(bench.name)
    assert sorted(run["conclusion"] for run in runs) == ["failure", "neutral"]


async def test_agent_does_nothing_then_stopped_and_started_again_and_its_obedience_is_no_free_try(
    bench: Bench,
) -> None:
    await start(bench)
    first = bench.sandboxes.newest.name
    async with bench.db.write() as session:
        late = bench.clock() + timedelta(minutes=11)
        await set_sandbox(session, (await bench.boxes())[0].id, bench.clock(), last_heartbeat_at=late)
    await bench.pass_time(11 * 60, 40)
    await bench.pass_time(30, 10)
    assert bench.sandboxes.stops == [first]
    assert (await bench.boxes())[0].trouble == "idle"
    spec = await bench.spec()
    async with bench.db.read() as session:
        tasks = await list_tasks(session, spec.id)
    assert tasks[0].attempts == 2


async def test_stopped_for_trouble_and_hands_in_what_it_had_then_that_counts_as_an_attempt(
    bench: Bench,
) -> None:
    number = await start(bench)
    async with bench.db.write() as session:
        box = (await bench.boxes())[0]
        await set_sandbox(session, box.id, bench.clock(), trouble="time_limit")
    await bench.hand_in(status="cancelled", reason="terminated", text="half\n")
    await bench.rest()
    await bench.pass_time(15)
    assert (await bench.spec()).state is SpecState.FAILED, "another one would only take as long"
    assert "time limit" in bench.status(number)
    assert len(bench.sandboxes.orders) == 1
    assert (await bench.boxes())[0].reason == "time_limit"
    (pull,) = bench.github.pulls(bench.name)
    assert bench.git("show", f"{pull['head']['sha']}:work.txt") == "half\n"
    runs = bench.github.check_runs(bench.name)
    assert sorted(run["conclusion"] for run in runs) == ["neutral", "timed_out"]
