"""The clock of a machine jumps, or differs from another's and GitHub's: work is late at worst, never lost or doubled."""

from __future__ import annotations

import pytest

from app.db.specs import LEASE, claim_spec
from app.domain.states import SpecState
from tests.worker.bench import Bench, Clock
from tests.worker.test_life import finish, start
from worker.engine import Engine


@pytest.mark.parametrize("jump_s", [3600, -3600], ids=["an hour on", "an hour back"])
async def test_clock_jumps_in_the_middle_of_a_run_then_it_goes_on_at_once(bench: Bench, jump_s: int) -> None:
    number = await start(bench)
    await bench.report(1)
    bench.clock.add(jump_s)
    await bench.report(2)
    await bench.rest()
    assert len(bench.sandboxes.orders) == 1
    await finish(bench, number)


async def test_worker_an_hour_behind_takes_over_what_another_has_let_go_of(bench: Bench) -> None:
    number = bench.open_issue()
    bench.label(number)
    await bench.rest()
    spec = await bench.spec()
    slow = Clock()
    slow.add(-3600)
    await bench.report(1)
    async with bench.db.write() as session:
        claim = await claim_spec(session, spec.id, "an hour behind", slow())
    assert claim is not None


async def test_lease_of_a_dead_worker_ends_by_the_time_that_it_was_given(bench: Bench) -> None:
    await start(bench)
    spec = await bench.spec()
    bench.clock.add(5)
    async with bench.db.write() as session:
        assert await claim_spec(session, spec.id, "dead soon", bench.clock()) is not None
    assert await Engine(bench.another_worker()).advance(spec.id) == 0
    bench.clock.add(LEASE.total_seconds() + 1)
    assert await Engine(bench.another_worker()).advance(spec.id) > 0


@pytest.mark.parametrize("skew_s", [-50, 50], ids=["GitHub behind", "GitHub ahead"])
async def test_githubs_clock_differs_by_less_than_a_minute_then_nothing_is_refused(
    bench: Bench, skew_s: int
) -> None:
    bench.github.skew_clock(skew_s)
    try:
        await start(bench)
        assert (await bench.spec()).state is SpecState.IMPLEMENTING
    finally:
        bench.github.skew_clock(-skew_s)


@pytest.mark.parametrize("off_s", [3600, -3600], ids=["GitHub ahead", "GitHub behind"])
async def test_githubs_clock_differs_by_an_hour_then_the_run_ends_as_any_other(
    bench: Bench, off_s: int
) -> None:
    bench.github.skew_clock(off_s)
    bench.github.advance_clock(off_s)
    try:
        number = await start(bench)
        await bench.report(1)
        await finish(bench, number)
    finally:
        bench.github.skew_clock(0)
        bench.github.advance_clock(-off_s)
