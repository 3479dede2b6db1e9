"""A quick run on the bench, and what becomes of it when its sandbox or its worker goes away."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from app.db.processes import record_beat
from app.db.tasks import list_tasks
from app.domain.spare import SandboxSize
from app.domain.states import SandboxState, SpecState, TaskState
from tests.worker import planning
from tests.worker.bench import Bench
from tests.worker.sandboxes import ScriptedSandboxes
from worker.engine import Engine
from worker.flow.order import usual_size


async def start(bench: Bench) -> int:
    """Labeled, with a running sandbox."""
    number = bench.open_issue()
    bench.label(number)
    await bench.rest()
    assert len(bench.sandboxes.orders) == 1
    return number


async def finish(bench: Bench, number: int) -> None:
    await bench.hand_in()
    await bench.rest()
    bench.sandboxes.end(bench.sandboxes.newest.name, 0)
    await bench.pass_time(15)
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert "Done" in bench.status(number)
    pulls = bench.github.pulls(bench.name)
    assert len(pulls) == 1
    assert not pulls[0]["draft"]
    assert bench.branches() == {"main", pulls[0]["head"]["ref"]}
    runs = bench.github.check_runs(bench.name)
    assert sorted(run["conclusion"] for run in runs) == ["neutral", "success"]


async def test_labeled_issue_ends_in_one_ready_pull_request_and_then_rests(bench: Bench) -> None:
    number = await start(bench)
    await finish(bench, number)
    await bench.pass_time(660, 330)  # that no check has started is mentioned
    before = len(bench.writes())
    await bench.pass_time(3600, 600)
    assert len(bench.writes()) == before
    assert bench.sandboxes.sights == {}


@pytest.mark.parametrize("label", ["agent:quick", "agent"])
async def test_usual_work_is_ordered_in_the_size_in_which_one_sandbox_is_kept_ready(
    bench: Bench, label: str
) -> None:
    planning.start(bench, label)
    await bench.rest()
    order = bench.sandboxes.newest
    asked = SandboxSize(
        order.memory_gb, order.cpu, order.disk_gb, order.time_limit_s, tuple(order.allow_hosts)
    )
    assert asked == usual_size(bench.parts.limits)


async def test_sandbox_is_lost_then_the_next_one_starts_from_its_checkpoint(bench: Bench) -> None:
    number = await start(bench)
    first = bench.sandboxes.newest
    await bench.checkpoint()
    bench.sandboxes.lose(first.name)
    await bench.pass_time(30)
    second = bench.sandboxes.newest
    assert second.name != first.name
    head = bench.github.pulls(bench.name)[0]["head"]["sha"]
    assert second.start_sha == head != first.start_sha
    await bench.hand_in()
    await bench.rest()
    bench.sandboxes.end(second.name, 0)
    await bench.pass_time(15)
    assert "Done" in bench.status(number)
    assert [box.state for box in await bench.boxes()] == [SandboxState.FAILED, SandboxState.COMPLETED]


async def test_sandbox_lost_three_times_is_told_once_with_the_reason(bench: Bench) -> None:
    number = await start(bench)
    for _ in range(3):
        bench.sandboxes.end(bench.sandboxes.newest.name, 137)
        await bench.pass_time(30)
    assert len(bench.sandboxes.orders) == 3
    assert (await bench.spec()).state is SpecState.FAILED
    assert "exit code 137" in bench.status(number)
    before = len(bench.writes())
    await bench.pass_time(600, 60)
    assert len(bench.writes()) == before
    assert len(bench.sandboxes.orders) == 3


async def test_sandbox_without_heartbeat_is_stopped_and_replaced(bench: Bench) -> None:
    await start(bench)
    first = bench.sandboxes.newest.name
    await bench.pass_time(80)
    assert bench.sandboxes.stops == []
    await bench.pass_time(90)
    assert bench.sandboxes.stops == [first]
    assert len(bench.sandboxes.orders) == 2


async def test_sandbox_past_its_deadline_that_will_not_stop_is_removed(bench: Bench) -> None:
    await start(bench)
    bench.sandboxes.obeys = False
    first = bench.sandboxes.newest.name
    bench.clock.add(3600 + 600 + 301)
    await bench.report(1)
    await bench.rest()
    assert bench.sandboxes.stops == [first]
    assert first in bench.sandboxes.sights
    await bench.pass_time(45)
    assert first in bench.sandboxes.deleted
    assert (await bench.boxes())[0].reason == "time_limit"


async def test_new_worker_finds_the_sandbox_and_goes_on(bench: Bench) -> None:
    number = await start(bench)
    bench.parts = bench.another_worker()
    await bench.pass_time(30)
    assert len(bench.sandboxes.orders) == 1
    await finish(bench, number)


async def test_agent_is_done_before_any_worker_saw_it_run_and_its_work_is_taken_once(bench: Bench) -> None:
    """The worker that made the sandbox was killed at once; the agent was quicker than the next worker."""
    number = await start(bench)
    spec = await bench.spec()
    async with bench.db.write() as session:
        tasks = await list_tasks(session, spec.id)
        box = await session.merge((await bench.boxes())[0])
        tasks[0].state, box.state, box.started_at = TaskState.ASSIGNED, SandboxState.CREATING, None
    await bench.hand_in()
    bench.sandboxes.end(bench.sandboxes.newest.name, 0)
    await bench.rest()
    await bench.pass_time(15)
    assert len(bench.sandboxes.orders) == 1
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert "Done" in bench.status(number)


async def test_retry_after_the_pull_request_was_closed_gets_a_new_one(bench: Bench) -> None:
    number = await start(bench)
    pull = bench.github.pulls(bench.name)[0]
    bench.github.close_pull(bench.name, pull["number"], "alice")
    await bench.pass_time(60)
    assert (await bench.spec()).state is SpecState.CANCELLED
    run = bench.github.check_runs(bench.name)[0]
    bench.github.press_button(run["id"], "carol", "retry")
    await bench.rest()
    await bench.hand_in()
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    pulls = bench.github.pulls(bench.name)
    assert [one["state"] for one in pulls] == ["closed", "open"]
    assert pulls[1]["head"]["ref"] != pull["head"]["ref"]
    assert "Done" in bench.status(number)


async def test_merged_while_the_agent_works_completes_it(bench: Bench) -> None:
    number = await start(bench)
    pull = bench.github.pulls(bench.name)[0]
    bench.github.set_draft(bench.name, pull["number"], "alice", draft=False)
    bench.github.merge_pull(bench.name, pull["number"], "alice")
    await bench.pass_time(60)
    assert (await bench.spec()).state is SpecState.COMPLETED
    assert bench.sandboxes.sights == {}
    assert bench.github.issue(bench.name, number)["state"] == "closed"


async def test_worker_of_another_host_leaves_local_sandboxes_to_theirs_while_that_has_a_worker(
    bench: Bench,
) -> None:
    await start(bench)
    spec_id, elsewhere = (await bench.spec()).id, ScriptedSandboxes()
    other = Engine(replace(bench.another_worker(), host_id="another-host", sandboxes=elsewhere))
    async with bench.db.write() as session:
        await record_beat(session, "w-1", "worker", bench.parts.host_id, 1, "0", bench.clock())
    for _ in range(4):
        bench.clock.add(5)
        await other.advance(spec_id)
    assert [box.state for box in await bench.boxes()] == [SandboxState.RUNNING]
    for _ in range(6):
        bench.clock.add(30)  # the other host has gone with all that was on it
        await other.advance(spec_id)
    assert [box.state for box in await bench.boxes()] == [SandboxState.FAILED, SandboxState.RUNNING]
    assert len(elsewhere.orders) == 1


async def test_sandboxes_on_this_host_and_on_another_then_the_work_goes_on_here(bench: Bench) -> None:
    await start(bench)
    spec_id, elsewhere = (await bench.spec()).id, ScriptedSandboxes()
    other = Engine(replace(bench.another_worker(), host_id="another-host", sandboxes=elsewhere))
    for _ in range(6):
        bench.clock.add(30)
        await other.advance(spec_id)
    assert len(elsewhere.orders) == 1
    async with bench.db.write() as session:  # back again, with a sandbox that nobody has removed
        await record_beat(session, "w-1", "worker", bench.parts.host_id, 1, "0", bench.clock())
    elsewhere.end(elsewhere.newest.name, 1)
    for _ in range(6):
        bench.clock.add(5)
        await other.advance(spec_id)
    assert [box.state for box in await bench.boxes()][:2] == [SandboxState.FAILED, SandboxState.FAILED]
    assert len(elsewhere.orders) == 2


async def test_two_workers_turn_the_same_spec_and_everything_is_there_once(bench: Bench) -> None:
    number = bench.open_issue()
    bench.label(number)
    await bench.receive(bench.new_deliveries())
    await bench.take_in()
    spec = await bench.spec()
    engines = [Engine(bench.parts), Engine(bench.another_worker())]
    for _ in range(4):
        await asyncio.gather(*(engine.advance(spec.id) for engine in engines for _ in range(3)))
    assert len(bench.sandboxes.orders) == 1
    assert len(bench.github.pulls(bench.name)) == 1
    assert len([text for text in bench.comments(number) if "part=status" in text]) == 1
