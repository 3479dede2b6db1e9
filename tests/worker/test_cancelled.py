"""Work is cancelled in every part of its life: nothing that was committed is lost, nothing stays behind, and a retry goes on."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.db.sandboxes import set_sandbox
from app.db.specs import record_fact
from app.domain.errors import RetryAt
from app.domain.ports import SandboxSight
from app.domain.states import SpecState, TaskState
from tests.worker import planning
from tests.worker.bench import Bench
from tests.worker.planning import brief, tasks
from tests.worker.test_comments import say
from tests.worker.test_follow import ready_without_sandbox
from tests.worker.test_life import start
from tests.worker.test_planning import at_work_side_by_side
from tests.worker.test_reviews import take_in
from tests.worker.test_told import newest_check
from worker.flow.wrap_up import WRAP_UP_S


async def works(bench: Bench, name: str) -> None:
    """The agent in that sandbox says that it is at it."""
    order = bench.sandboxes.orders[name]
    async with bench.db.write() as session:
        await set_sandbox(session, order.sandbox_id, bench.clock(), activity="working")
        await record_fact(session, str(order.labels["spec"]), bench.clock())


async def keep(bench: Bench, name: str, file: str, text: str = "half\n") -> None:
    """What it has committed so far is with the app, and its session."""
    _, bundle = bench.commit(text, of=name, file=file)
    await bench.upload("checkpoint.bundle", bundle, of=name)
    await bench.upload("transcript.tar.gz", b"session", of=name)


def files(bench: Bench) -> set[str]:
    """On the branch."""
    head = bench.github.pulls(bench.name)[0]["head"]["sha"]
    return set(bench.git("ls-tree", "--name-only", head).split())


async def stop(bench: Bench, number: int) -> None:
    say(bench, number, "/agent stop")
    await bench.rest()


async def cancelled(bench: Bench, within_s: float) -> None:
    await bench.pass_time(within_s, 3)
    assert (await bench.spec()).state is SpecState.CANCELLED
    assert (await bench.spec()).concluded_at is not None
    assert bench.sandboxes.sights == {}


async def test_several_tasks_are_at_work_then_each_agent_is_told_and_what_each_had_is_on_the_branch(
    bench: Bench,
) -> None:
    number, first, second = await at_work_side_by_side(bench)
    for name, file in ((first, "one.txt"), (second, "two.txt")):
        await works(bench, name)
        await keep(bench, name, file)
    await stop(bench, number)
    told = await bench.messages()
    assert ["30 seconds" in one.content for one in told] == [True, True]
    assert len({one.sandbox_id for one in told}) == 2
    assert bench.sandboxes.stops == []
    await cancelled(bench, WRAP_UP_S + 10)
    assert sorted(bench.sandboxes.stops) == sorted([first, second])
    assert {"one.txt", "two.txt"} <= files(bench)
    assert {row.state for row in (await tasks(bench)).values()} == {TaskState.CANCELLED}
    assert "is on the branch" in bench.status(number)
    assert newest_check(bench)["conclusion"] == "cancelled"
    say(bench, number, "/agent retry")
    await bench.pass_time(10)
    head = bench.github.pulls(bench.name)[0]["head"]["sha"]
    anew = list(bench.sandboxes.orders.values())[-2:]
    assert [one.start_sha for one in anew] == [head, head]


async def test_tasks_side_by_side_had_changed_the_same_then_the_second_ones_work_is_kept_and_said(
    bench: Bench,
) -> None:
    number, first, second = await at_work_side_by_side(bench)
    for name in (first, second):
        await works(bench, name)
        await keep(bench, name, "same.txt", f"{name}\n")
    await stop(bench, number)
    await cancelled(bench, WRAP_UP_S + 10)
    assert "same.txt" in files(bench)
    assert "specs bundle" in bench.status(number)


async def test_one_of_two_sandboxes_is_dead_then_the_other_still_has_its_time(bench: Bench) -> None:
    number, first, second = await at_work_side_by_side(bench)
    for name, file in ((first, "one.txt"), (second, "two.txt")):
        await works(bench, name)
        await keep(bench, name, file)
    bench.sandboxes.lose(first)
    await stop(bench, number)
    await bench.pass_time(WRAP_UP_S / 2, 3)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    assert second in bench.sandboxes.sights
    await cancelled(bench, WRAP_UP_S)
    assert bench.sandboxes.stops == [second]
    assert {"one.txt", "two.txt"} <= files(bench)


async def test_it_is_being_planned_then_it_ends_at_once_and_a_retry_goes_on_with_the_next_phase(
    bench: Bench,
) -> None:
    number = planning.start(bench)
    await bench.rest()
    await planning.hand_in_phase(bench, "explore")
    await planning.report(bench, "spec.phase_started", phase="requirements", attempt=1)
    await works(bench, bench.sandboxes.newest.name)
    await stop(bench, number)
    await cancelled(bench, 3)
    assert await bench.messages() == []
    assert bench.branches() == {"main"}
    say(bench, number, "/agent retry")
    await bench.rest()
    assert len(bench.sandboxes.orders) == 2
    assert list(brief(bench).outputs) == ["explore"]


@pytest.mark.parametrize("dead", [False, True])
async def test_it_is_in_a_round_of_its_review_then_that_is_kept_and_goes_on_after_a_retry(
    bench: Bench, dead: bool
) -> None:
    number = await ready_without_sandbox(bench)
    say(bench, number, "Add a changelog.")
    await bench.rest()
    await bench.hand_in(text="changelog\n", session_id="s-1")
    await bench.rest()
    say(bench, number, "And sign it.")
    await bench.rest()
    await take_in(bench)
    name = bench.sandboxes.newest.name
    await works(bench, name)
    await keep(bench, name, "signed.txt")
    if dead:
        bench.sandboxes.lose(name)
    await stop(bench, number)
    await cancelled(bench, 5 if dead else WRAP_UP_S + 10)
    assert bench.sandboxes.stops == ([] if dead else [name])
    assert "signed.txt" in files(bench)
    assert newest_check(bench)["conclusion"] == "cancelled"
    say(bench, number, "/agent retry")
    await bench.pass_time(10)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    assert brief(bench).resume_session_id == "s-1"


async def test_sandbox_neither_answers_nor_ends_then_it_is_removed_in_its_time(bench: Bench) -> None:
    number = await start(bench)
    bench.sandboxes.obeys = False
    name = bench.sandboxes.newest.name
    await works(bench, name)
    await keep(bench, name, "half.txt")
    await stop(bench, number)
    await cancelled(bench, WRAP_UP_S + 20 + 5 + 15)
    assert (bench.sandboxes.stops, bench.sandboxes.deleted) == ([name], [name])
    assert "half.txt" in files(bench)


async def test_sandbox_dies_while_its_agent_wraps_up_then_nobody_waits_for_the_rest_of_its_time(
    bench: Bench,
) -> None:
    number = await start(bench)
    name = bench.sandboxes.newest.name
    await works(bench, name)
    await keep(bench, name, "half.txt")
    await stop(bench, number)
    await bench.pass_time(3, 1)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    bench.sandboxes.end(name, 137)
    await cancelled(bench, 3)
    assert "half.txt" in files(bench)


async def test_provider_is_away_then_the_end_waits_for_it_and_nothing_stays_behind(bench: Bench) -> None:
    number = await start(bench)
    fetch_sight = bench.sandboxes.fetch_sight

    async def is_away(name: str) -> SandboxSight:
        raise RetryAt("the provider is away", bench.clock() + timedelta(seconds=5))

    bench.sandboxes.fetch_sight = is_away  # type: ignore[method-assign]
    await stop(bench, number)
    await bench.pass_time(300, 15)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    assert (await bench.spec()).failures == 0
    bench.sandboxes.fetch_sight = fetch_sight  # type: ignore[method-assign]
    await cancelled(bench, 150)


async def test_branch_is_deleted_then_it_stays_so_and_what_the_agent_had_is_kept_and_said(
    bench: Bench,
) -> None:
    number = await start(bench)
    name = bench.sandboxes.newest.name
    await keep(bench, name, "first.txt")
    bench.sandboxes.lose(name)
    await bench.pass_time(30)  # what it had is on the branch
    name = bench.sandboxes.newest.name
    await works(bench, name)
    await keep(bench, name, "second.txt")
    bench.github.delete_branch(bench.name, "alice", bench.github.pulls(bench.name)[0]["head"]["ref"])
    await bench.rest()
    await cancelled(bench, WRAP_UP_S + 10)
    assert bench.branches() == {"main"}
    assert "specs bundle" in bench.status(number)
    assert "is on the branch" not in bench.status(number)
