"""Who may start a sandbox, and what people are told who wait for one or for money."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from sqlalchemy import update

from app.db.model_calls import Settlement, record_reservation, record_settlement
from app.db.models import Spec
from app.db.processes import record_beat
from app.db.sandboxes import set_sandbox
from app.domain.errors import Denied, RetryAt
from app.domain.ids import SandboxId
from app.domain.ports import SandboxOrder, SandboxSight
from app.domain.states import SandboxState, SpecState
from app.domain.supply import Supply
from app.web.operator_reads import read_specs
from tests.worker.bench import Bench
from tests.worker.test_comments import replies
from tests.worker.test_life import start
from worker.engine import Engine


def supply(bench: Bench, **limits: float) -> None:
    """What the operator grants from now on; a sandbox is meant to have 10 USD."""
    bench.parts = replace(bench.parts, limits=replace(bench.parts.limits, supply=Supply(**limits)))  # type: ignore[arg-type]


async def label_another(bench: Bench, title: str = "Another") -> int:
    number = bench.open_issue(title)
    bench.label(number)
    await bench.rest()
    await bench.pass_time(15)
    return number


async def spend(bench: Bench, usd: float, *, settled: bool = True) -> None:
    """What the newest sandbox's agent asks the model for, as the gateway notes it."""
    box = SandboxId(bench.sandboxes.newest.sandbox_id)
    async with bench.db.write() as session:
        call_id = await record_reservation(session, box, "m", usd, bench.clock())
        assert call_id is not None
        if settled:
            await record_settlement(session, call_id, Settlement(usd, 200), bench.clock())


async def give_up(bench: Bench, number: int) -> None:
    """Its newest sandbox ends, and the money that it had not spent is free again."""
    bench.unlabel(number)
    await bench.pass_time(30)


async def give_up_unseen(bench: Bench, number: int) -> None:
    """The same, and nobody else looks meanwhile."""
    bench.unlabel(number)
    await bench.receive(bench.new_deliveries())
    await bench.take_in()
    spec = (await bench.specs())[0]
    for _ in range(8):
        bench.clock.add(1)
        await Engine(bench.parts).advance(spec.id)
    assert bench.sandboxes.sights == {}


async def beat(bench: Bench, now: datetime) -> None:
    """A worker says that it is there, for the first time."""
    async with bench.db.write() as session:
        await record_beat(session, "w1", "worker", "host", 1, "1", now)


async def at_noon(bench: Bench) -> None:
    now = bench.clock()
    noon = now.replace(hour=12, minute=0, second=0, microsecond=0)
    bench.clock.add((noon + timedelta(days=1) - now).total_seconds())


async def test_no_sandbox_is_free_then_the_second_waits_with_its_place_and_goes_on_by_itself(
    bench: Bench,
) -> None:
    bench.parts = replace(bench.parts, limits=replace(bench.parts.limits, supply=Supply(max_sandboxes=1)))
    first = await start(bench)
    second = bench.open_issue("Another")
    bench.label(second)
    await bench.rest()
    await bench.pass_time(15)
    assert len(bench.sandboxes.orders) == 1
    assert "a free sandbox (place 1 in the queue)" in bench.status(second)
    bench.unlabel(first)
    await bench.rest()
    bench.sandboxes.end(bench.sandboxes.newest.name, 143)
    await bench.pass_time(90, 15)
    assert len(bench.sandboxes.orders) == 2
    assert "Waits for" not in bench.status(second)


@pytest.mark.parametrize(
    ("key_refused", "told"),
    [(False, "room at the sandbox provider"), (True, "the operator, whose key the sandbox provider refuses")],
)
async def test_provider_has_no_room_or_takes_no_key_then_it_waits_without_using_up_attempts(
    bench: Bench, key_refused: bool, told: str
) -> None:
    create = bench.sandboxes.ensure_created

    async def refuses(order: SandboxOrder) -> SandboxSight:
        if key_refused:
            raise Denied("401", "sandbox_key")
        raise RetryAt("the quota is used up", bench.clock() + timedelta(seconds=60))

    bench.sandboxes.ensure_created = refuses  # type: ignore[method-assign]
    number = bench.open_issue()
    bench.label(number)
    await bench.rest()
    await bench.pass_time(600, 60)
    assert told in bench.status(number)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    bench.sandboxes.ensure_created = create  # type: ignore[method-assign]
    await bench.pass_time(120, 30)
    assert len(bench.sandboxes.orders) == 1
    assert told not in bench.status(number)
    (box,) = await bench.boxes()
    assert box.state is SandboxState.RUNNING
    assert box.deadline_at > bench.clock() + timedelta(hours=1)


async def test_provider_has_no_room_for_hours_then_it_still_waits_and_no_attempt_is_used_up(
    bench: Bench,
) -> None:
    create = bench.sandboxes.ensure_created

    async def refuses(order: SandboxOrder) -> SandboxSight:
        raise RetryAt("the quota is used up", bench.clock() + timedelta(seconds=60))

    bench.sandboxes.ensure_created = refuses  # type: ignore[method-assign]
    number = bench.open_issue()
    bench.label(number)
    await bench.rest()
    await bench.pass_time(5 * 3600, 900)
    assert "room at the sandbox provider" in bench.status(number)
    bench.sandboxes.ensure_created = create  # type: ignore[method-assign]
    await bench.pass_time(120, 30)
    assert [box.attempt for box in await bench.boxes()] == [1]
    assert (await bench.boxes())[0].state is SandboxState.RUNNING


async def test_budget_for_the_issue_is_below_a_sandboxes_then_that_is_what_the_first_one_gets(
    bench: Bench,
) -> None:
    supply(bench, spec_budget_usd=0.5)
    number = await start(bench)
    assert [box.budget_usd for box in await bench.boxes()] == [0.5]
    assert "Waits for" not in bench.status(number)


async def test_issue_has_spent_what_it_may_then_it_waits_and_goes_on_within_a_minute_of_more(
    bench: Bench,
) -> None:
    supply(bench, spec_budget_usd=10.0)
    number = await start(bench)
    await spend(bench, 10.0)
    bench.sandboxes.lose(bench.sandboxes.newest.name)
    await bench.pass_time(1200, 60)
    assert "what this issue may cost is used up" in bench.status(number)
    assert len(bench.sandboxes.orders) == 1
    supply(bench, spec_budget_usd=15.0)
    await bench.pass_time(60, 15)
    assert [box.budget_usd for box in await bench.boxes()] == [10.0, 5.0]
    assert "Waits for" not in bench.status(number)


async def test_days_money_is_set_aside_for_agents_then_told_so_and_the_rest_goes_to_who_came_first(
    bench: Bench,
) -> None:
    await at_noon(bench)
    supply(bench, day_budget_usd=10.0)
    first = await start(bench)
    second, third = await label_another(bench, "Second"), await label_another(bench, "Third")
    assert "set aside" in bench.status(second)
    assert "(place 1 in the queue)" in bench.status(second)
    assert "(place 2 in the queue)" in bench.status(third)
    await spend(bench, 4.0)
    await give_up(bench, first)
    await bench.pass_time(30, 15)
    assert [order.labels["spec"] for order in bench.sandboxes.orders.values()] == [
        spec.id for spec in (await bench.specs())[:2]
    ]
    assert (await bench.boxes())[1].budget_usd == 6.0
    assert "(place 1 in the queue)" in bench.status(third)


async def test_days_money_is_spent_then_work_waits_for_midnight_in_its_order(bench: Bench) -> None:
    await at_noon(bench)
    supply(bench, day_budget_usd=10.0)
    first = await start(bench)
    await spend(bench, 10.0)
    await give_up(bench, first)
    second, third = await label_another(bench, "Second"), await label_another(bench, "Third")
    assert "the next day (UTC)" in bench.status(second)
    assert "(place 2 in the queue)" in bench.status(third)
    await bench.pass_time(11 * 3600, 3600)
    assert len(bench.sandboxes.orders) == 1
    specs = await bench.specs()
    bench.clock.add(3600)
    for spec in reversed(specs):  # whoever looks first
        await Engine(bench.parts).advance(spec.id)
    await bench.pass_time(120, 30)
    assert [order.labels["spec"] for order in bench.sandboxes.orders.values()] == [
        spec.id for spec in specs[:2]
    ]
    assert "Waits for" not in bench.status(second)
    assert "set aside" in bench.status(third)


@pytest.mark.parametrize("today", [1.0, 9.5])
async def test_sandbox_of_yesterday_spends_after_midnight_then_only_that_counts_for_today(
    bench: Bench, today: float
) -> None:
    await at_noon(bench)
    supply(bench, day_budget_usd=10.0)
    first = await start(bench)
    async with bench.db.write() as session:
        await set_sandbox(session, bench.sandboxes.newest.sandbox_id, bench.clock(), budget_usd=20.0)
    await spend(bench, 6.0)
    bench.clock.add(11.99 * 3600)
    await spend(bench, 2.0)
    bench.clock.add(600)
    await spend(bench, today / 2)
    bench.clock.add(-300)  # another process, whose clock is behind
    await spend(bench, today / 2)
    bench.clock.add(300)
    await give_up(bench, first)
    second = await label_another(bench)
    assert [box.budget_usd for box in await bench.boxes()][1:] == ([9.0] if today < 9 else [])
    assert ("the next day (UTC)" in bench.status(second)) is (today > 9)


async def test_call_to_the_model_is_unsettled_when_its_sandbox_ends_then_it_counts_as_spent(
    bench: Bench,
) -> None:
    await at_noon(bench)
    supply(bench, day_budget_usd=10.0)
    first = await start(bench)
    await spend(bench, 9.5, settled=False)
    await give_up(bench, first)
    second = await label_another(bench)
    assert "the next day (UTC)" in bench.status(second)


async def test_fewer_sandboxes_are_allowed_than_there_are_then_the_queue_moves_when_enough_have_ended(
    bench: Bench,
) -> None:
    first = await start(bench)
    await label_another(bench, "Second")
    supply(bench, max_sandboxes=1)
    third = await label_another(bench, "Third")
    assert "(place 1 in the queue)" in bench.status(third)
    await give_up(bench, first)
    assert len(bench.sandboxes.orders) == 2
    supply(bench, max_sandboxes=2)
    await bench.pass_time(15)
    assert len(bench.sandboxes.orders) == 3
    assert "Waits for" not in bench.status(third)


async def test_two_workers_ask_for_the_last_place_at_once_then_one_gets_it(bench: Bench) -> None:
    supply(bench, max_sandboxes=1)
    numbers = [bench.open_issue(f"Issue {number}") for number in range(3)]
    for number in numbers:
        bench.label(number)
    await bench.receive(bench.new_deliveries())
    await bench.take_in()
    workers = [Engine(bench.parts), Engine(bench.another_worker())]
    for _ in range(6):
        specs = await bench.specs()
        await asyncio.gather(*(one.advance(spec.id) for spec in specs for one in workers))
    await bench.rest()
    assert len(bench.sandboxes.orders) == 1


async def test_workers_were_away_for_long_then_nobody_has_lost_its_place(bench: Bench) -> None:
    supply(bench, max_sandboxes=1)
    first = await start(bench)
    await label_another(bench, "Second")
    await label_another(bench, "Third")
    await give_up_unseen(bench, first)
    specs = await bench.specs()
    bench.clock.add(3600)
    await beat(bench, bench.clock())
    for spec in reversed(specs):  # whoever looks first
        await Engine(bench.parts).advance(spec.id)
    await bench.pass_time(30, 15)
    assert [order.labels["spec"] for order in bench.sandboxes.orders.values()] == [
        spec.id for spec in specs[:2]
    ]


async def test_one_in_the_queue_does_not_ask_any_more_then_a_free_place_goes_to_the_next(
    bench: Bench,
) -> None:
    await beat(bench, bench.clock())
    supply(bench, max_sandboxes=1)
    first = await start(bench)
    await label_another(bench, "Second")
    await label_another(bench, "Third")
    async with bench.db.write() as session:
        held_until_at = bench.clock() + timedelta(hours=2)
        await session.execute(
            update(Spec).where(Spec.id == (await bench.specs())[1].id).values(due_at=held_until_at)
        )
    await give_up_unseen(bench, first)
    for _ in range(12):
        await bench.pass_time(30, 30)
        await beat(bench, bench.clock())
    specs = await bench.specs()
    assert [order.labels["spec"] for order in bench.sandboxes.orders.values()] == [specs[0].id, specs[2].id]


@pytest.mark.parametrize("how", ["paused", "unlabeled", "closed"])
async def test_work_in_the_queue_is_paused_or_ended_then_the_next_one_moves_up_and_it_waits_for_nothing(
    bench: Bench, how: str
) -> None:
    supply(bench, max_sandboxes=1)
    await start(bench)
    second, third = await label_another(bench, "Second"), await label_another(bench, "Third")
    assert "(place 2 in the queue)" in bench.status(third)
    bench.github.comment(bench.name, third, "alice", "/agent status")
    await bench.pass_time(15)
    told = "It waits for a free sandbox (place 2 in the queue)."
    assert [told in text for text in replies(bench, third)] == [True]
    listed = {one.issue: one.waits_for for one in (await read_specs(bench.db, None, 10)).items}
    assert listed[third] == "a free sandbox (place 2 in the queue)"
    if how == "paused":
        bench.github.comment(bench.name, second, "alice", "/agent pause")
    elif how == "unlabeled":
        bench.unlabel(second)
    else:
        bench.github.close_issue(bench.name, second, "alice")
    await bench.pass_time(60, 15)
    assert "Waits for" not in bench.status(second)
    assert "(place 1 in the queue)" in bench.status(third)


def refuse_key(bench: Bench) -> None:
    """The provider takes the operator's key no more, whatever is asked."""

    async def refuses(*_: object) -> SandboxSight:
        raise Denied("401", "sandbox_key")

    for name in ("ensure_created", "fetch_sight", "ensure_stopped", "ensure_deleted"):
        setattr(bench.sandboxes, name, refuses)


@pytest.mark.parametrize(("how", "state"), [("paused", SpecState.PAUSED), ("unlabeled", SpecState.CANCELLED)])
async def test_providers_key_is_refused_then_work_that_waits_for_it_can_be_paused_and_ended(
    bench: Bench, how: str, state: SpecState
) -> None:
    refuse_key(bench)
    number = bench.open_issue()
    bench.label(number)
    await bench.rest()
    await bench.pass_time(90, 30)
    if how == "paused":
        bench.github.comment(bench.name, number, "alice", "/agent pause")
    else:
        bench.unlabel(number)
    await bench.pass_time(60, 15)
    assert (await bench.spec()).state is state
    assert "Waits for" not in bench.status(number)
    assert "still there" not in bench.status(number)


async def test_providers_key_is_refused_when_work_ends_then_it_is_told_and_the_sandbox_goes_once_it_is_back(
    bench: Bench,
) -> None:
    number = await start(bench)
    await bench.hand_in()
    await bench.rest()
    refuse_key(bench)
    bench.github.merge_pull(bench.name, bench.github.pulls(bench.name)[0]["number"], "alice")
    await bench.pass_time(60, 15)
    assert (await bench.spec()).state is SpecState.COMPLETED
    assert "Merged" in bench.status(number)
    assert "issuewright doctor" in bench.status(number)
    for name in ("ensure_created", "fetch_sight", "ensure_stopped", "ensure_deleted"):
        delattr(bench.sandboxes, name)
    await bench.pass_time(60, 15)
    assert bench.sandboxes.sights == {}
