"""Everything that is done once is claimed first: deliveries, effects, operations, locks, writes, reservations."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from app.db import intake
from app.db.deliveries import NewDelivery, record_deliveries
from app.db.effects import CLAIM, claim_effect, defer_effect, list_due_effects, record_effect, settle_effect
from app.db.engine import Database
from app.db.locks import (
    claim_lock,
    claim_operation,
    find_operation,
    forget_operation,
    renew_operation,
    settle_operation,
)
from app.db.model_calls import Settlement, list_unsettled, record_reservation, record_settlement
from app.db.writes import claim_write, record_pause
from app.domain.ids import DeliveryId, SandboxId
from app.domain.pace import Urgency
from app.domain.states import DeliveryState, EffectState
from tests.db.rows import T0, add_sandbox, add_spec, after, get_sandbox

HOLD = timedelta(seconds=30)


async def all_at_once(count: int, work: Callable[[int], Awaitable[object]]) -> list[object]:
    return list(await asyncio.gather(*map(work, range(count))))


async def add_delivery(db: Database) -> str:
    one = NewDelivery(DeliveryId("d1"), "issues", {}, b"{}", T0)
    await record_deliveries(db, [one])
    return "d1"


async def test_delivery_is_claimed_by_one_comes_back_when_that_one_dies_and_is_settled_once(
    db: Database,
) -> None:
    delivery_id = await add_delivery(db)

    async def claim(_: int, at: float = 0) -> object:
        async with db.write() as session:
            return await intake.claim_delivery(session, delivery_id, after(at))

    assert len([one for one in await all_at_once(30, claim) if one is not None]) == 1
    assert await claim(0, intake.CLAIM.total_seconds() + 1) is not None

    async def settle(_: int) -> object:
        async with db.write() as session:
            return await intake.settle_delivery(
                session, delivery_id, DeliveryState.HANDLED, T0, intent="start"
            )

    assert sorted(map(bool, await all_at_once(5, settle))) == [False] * 4 + [True]
    assert await claim(0, 3600) is None
    async with db.write() as session:
        await intake.defer_delivery(session, delivery_id, T0, "late")
        assert await intake.list_waiting(session, after(3600)) == []


async def test_put_off_delivery_waits_for_its_time(db: Database) -> None:
    delivery_id = await add_delivery(db)
    async with db.write() as session:
        assert await intake.claim_delivery(session, delivery_id, T0) is not None
        await intake.defer_delivery(session, delivery_id, after(60), "GitHub asked for a pause")
        assert await intake.list_waiting(session, after(59)) == []
        assert await intake.list_waiting(session, after(60)) == [delivery_id]


async def test_effect_is_owed_once_per_key_and_performed_by_one(db: Database) -> None:
    async def record(_: int) -> object:
        async with db.write() as session:
            return await record_effect(
                session, kind="labels", key="7:labels", repo=(1, 7), payload={}, now=T0
            )

    made = [one for one in await all_at_once(20, record) if one is not None]
    assert len(made) == 1
    effect_id = str(made[0])

    async def claim(_: int, at: float = 0) -> object:
        async with db.write() as session:
            return await claim_effect(session, effect_id, after(at))

    assert len([one for one in await all_at_once(20, claim) if one is not None]) == 1
    assert await claim(0, CLAIM.total_seconds()) is not None
    async with db.write() as session:
        await defer_effect(session, effect_id, after(300), reason="later")
        assert await list_due_effects(session, after(299)) == []
        assert await list_due_effects(session, after(300)) == [effect_id]
        await settle_effect(session, effect_id, EffectState.DONE, after(300))
        await defer_effect(session, effect_id, T0, reason="too late to matter")
        assert await list_due_effects(session, after(9999)) == []


async def test_operation_runs_once_until_its_process_dies_and_only_its_owner_settles_it(db: Database) -> None:
    async def claim(number: int, at: float = 0) -> object:
        async with db.write() as session:
            return await claim_operation(session, "mirror", f"w{number}", after(at), HOLD)

    assert sum(map(bool, await all_at_once(20, claim))) == 1
    async with db.read() as session:
        first = await find_operation(session, "mirror")
    assert first is not None
    async with db.write() as session:
        assert await renew_operation(session, "mirror", first.owner, after(40))
        assert not await renew_operation(session, "mirror", "w99", after(999))
    assert not await claim(50, 39)
    assert await claim(50, 40)
    async with db.write() as session:
        assert not await renew_operation(session, "mirror", first.owner, after(999))
        await settle_operation(session, "mirror", first.owner, "done", None)
        await forget_operation(session, "mirror")
        second = await find_operation(session, "mirror")
    assert second is not None
    assert (second.state, second.owner, second.attempts) == ("started", "w50", 2)


async def test_lock_has_one_holder_who_may_renew_it(db: Database) -> None:
    async def claim(number: int, at: float = 0) -> bool:
        async with db.write() as session:
            return await claim_lock(session, "orphans", f"w{number}", after(at), HOLD)

    got = await asyncio.gather(*map(claim, range(20)))
    assert sum(got) == 1
    holder = got.index(True)
    assert await claim(holder, 20)
    assert not await claim(99, 49)
    assert await claim(99, 50)


async def test_writes_keep_a_second_apart_per_installation_and_wait_out_a_pause(db: Database) -> None:
    async def write(
        _: int, installation: int = 1, at: float = 0, urgency: Urgency = Urgency.BACKGROUND
    ) -> object:
        async with db.write() as session:
            return await claim_write(session, installation, after(at), urgency)

    went = [one for one in await all_at_once(10, write) if one is None]
    assert len(went) == 1
    assert await write(0, at=0.5) == after(1)
    assert await write(0, at=1) is None
    assert await write(0, installation=2) is None
    ahead = [await write(0, at=10, urgency=Urgency.PROGRESS) for _ in range(4)]
    assert ahead == [None, None, None, after(11)]
    async with db.write() as session:
        await record_pause(session, 1, after(100))
        await record_pause(session, 1, after(50))
    assert await write(0, at=99) == after(100)
    assert await write(0, installation=2, at=99) is None
    assert await write(0, at=100) is None


async def test_reservations_at_once_never_exceed_the_budget_and_are_settled_once(db: Database) -> None:
    sandbox_id = SandboxId(await add_sandbox(db, await add_spec(db), budget_usd=1.0))

    async def reserve(_: int) -> object:
        async with db.write() as session:
            return await record_reservation(session, sandbox_id, "m", 0.3, T0)

    calls = [str(one) for one in await all_at_once(10, reserve) if one is not None]
    assert len(calls) == 3
    async with db.write() as session:
        assert await record_settlement(session, calls[0], Settlement(0.1, 200), T0)
        assert not await record_settlement(session, calls[0], Settlement(0.1, 200), T0)
        assert await list_unsettled(session, T0) == []
        assert {one.id for one in await list_unsettled(session, after(1))} == set(calls[1:])
    found = await get_sandbox(db, sandbox_id)
    assert (round(found.spent_usd, 6), round(found.reserved_usd, 6)) == (0.1, 0.6)
