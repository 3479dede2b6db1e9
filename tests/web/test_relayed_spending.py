"""What an agent behind a relay says that it has spent counts, where no gateway can count it."""

from datetime import timedelta

import pytest

from app.db.model_calls import Settlement, record_reservation, record_settlement
from app.db.models import Sandbox, Spec
from app.db.relay import record_relay
from app.db.supply import get_taken
from app.domain.states import SandboxState
from app.domain.supply import Spent
from app.web.event_intake import note_reported_spending
from app.web.ports import Limits
from tests.web.conftest import OPERATOR, T0, add_sandbox, bearer, create_tables, event, get_row
from tests.web.test_sandbox_artifacts import manifest, put


def result(seq, cost_usd):
    return event(seq, "agent.system_message", subtype="result", cost_usd=cost_usd)


async def relayed(world, number=1, **values):
    sandbox = await add_sandbox(world, number, **values)
    async with world.database.write() as session:
        await record_relay(session, sandbox[0], T0)
    return sandbox


async def spent(world, sandbox, *events):
    """After these events, as operators see it."""
    sandbox_id, token = sandbox
    if events:
        async with world.http(**bearer(token)) as client:
            answer = await client.post(f"/api/v1/sandboxes/{sandbox_id}/events", json={"events": events})
        assert answer.status_code == 200
    async with world.http(**OPERATOR) as client:
        return (await client.get(f"/api/v1/sandboxes/{sandbox_id}")).json()["spent_usd"]


async def test_sums_reported_from_behind_a_relay_then_the_highest_is_what_it_has_spent(world):
    sandbox = await relayed(world)
    assert await spent(world, sandbox, result(1, 1.5)) == 1.5
    assert await spent(world, sandbox, result(1, 1.5)) == 1.5, "said again"
    assert await spent(world, sandbox, result(3, 4.0), result(2, 2.25)) == 4.0
    assert await spent(world, sandbox, event(4, "agent.completed", cost_usd=4.5)) == 4.5
    assert await spent(world, sandbox, event(5, "agent.tool_use", cost_usd=9.0)) == 4.5, (
        "no sum of the agent's"
    )


async def test_manifest_is_the_last_that_is_heard_then_its_sum_counts_too(world):
    behind, near = await relayed(world), await add_sandbox(world, 2)
    for sandbox in (behind, near):
        answer = await put(world, sandbox, "manifest.json", manifest(sandbox[0], cost_usd=2.5))
        assert answer.status_code == 204
    assert (await spent(world, behind), await spent(world, near)) == (2.5, 0)


async def test_sandbox_that_reaches_the_gateway_reports_a_sum_then_the_gateways_count_stands(world):
    sandbox = await add_sandbox(world, spent_usd=0.5)
    assert await spent(world, sandbox, result(1, 3.0), event(2, "agent.completed", cost_usd=3.0)) == 0.5


async def test_gateway_has_counted_behind_a_relay_too_then_nothing_counts_twice(world):
    sandbox = await relayed(world)
    async with world.database.write() as session:
        call_id = await record_reservation(session, sandbox[0], "m", 2.0, T0)
        await record_settlement(session, call_id, Settlement(2.0, 200), T0)
    assert await spent(world, sandbox, result(1, 2.0)) == 2.0
    assert await spent(world, sandbox, result(2, 2.5)) == 2.5


@pytest.mark.parametrize("said", [-3, "12", None, True, [5], {"usd": 5}, 1e300, 10**400])
async def test_sum_is_made_up_then_it_costs_no_more_than_twice_the_budget(world, said):
    sandbox = await relayed(world, budget_usd=5.0)
    assert await spent(world, sandbox, result(1, said)) <= 10.0
    assert await spent(world, sandbox, result(2, 3.0)) >= 3.0


async def test_too_many_events_then_the_sum_still_counts(make_world):
    world = make_world(Limits(events_per_sandbox=2))
    await create_tables(world)
    sandbox = await relayed(world)
    assert await spent(world, sandbox, *[event(n) for n in range(1, 6)], result(6, 2.0)) == 2.0


async def test_spending_was_reported_then_the_budgets_of_spec_and_day_have_less_left(world):
    sandbox = await relayed(world, budget_usd=5.0)
    await spent(world, sandbox, result(1, 4.0))
    row = await get_row(world, Sandbox, sandbox[0])
    async with world.database.write() as session:
        ended = await session.get_one(Sandbox, row.id)
        ended.state, ended.ended_at = SandboxState.COMPLETED, T0
    async with world.database.read() as session:
        spec = await session.get_one(Spec, row.spec_id)
        taken = await get_taken(session, spec, T0)
    assert taken.spec == taken.day == Spent(4.0)


async def test_sums_are_reported_before_and_after_midnight_then_each_day_has_what_was_new_on_it(world):
    sandbox = await relayed(world, budget_usd=50.0, state=SandboxState.RUNNING)
    row = await get_row(world, Sandbox, sandbox[0])
    async with world.database.write() as session:
        box = await session.get_one(Sandbox, row.id)
        for hours, usd in ((0, 4.0), (24, 4.0), (24, 7.0), (25, 9.0)):
            note_reported_spending(box, usd, T0 + timedelta(hours=hours))
        box.state, box.ended_at = SandboxState.COMPLETED, T0
    async with world.database.read() as session:
        spec = await session.get_one(Spec, row.spec_id)
        days = [(await get_taken(session, spec, T0 + timedelta(days=one))).day for one in (1, 2)]
    assert days == [Spent(5.0), Spent(0.0)]
