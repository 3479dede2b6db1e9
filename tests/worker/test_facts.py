"""Facts come in any order, twice, and in the middle of a step; none is lost and none counts twice."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from app.db.installations import find_repository
from app.db.intake import CLAIM
from app.db.specs import claim_spec, record_fact
from app.domain.errors import Fenced
from app.domain.ports import SandboxOrder, SandboxSight
from app.domain.states import DeliveryState, SpecState
from tests.worker.bench import Bench
from tests.worker.test_life import start
from worker.engine import Engine
from worker.intake import Intake
from worker.step import Step


async def test_cancellation_that_arrives_in_the_middle_of_a_step_is_acted_on_at_once(bench: Bench) -> None:
    make = bench.sandboxes.ensure_created

    async def interrupted(order: SandboxOrder) -> SandboxSight:
        bench.unlabel(1)
        await bench.receive(bench.new_deliveries())
        await bench.take_in()
        return await make(order)

    bench.sandboxes.ensure_created = interrupted  # type: ignore[method-assign]
    number = bench.open_issue()
    bench.label(number)
    await bench.rest()
    await bench.pass_time(2, 1)
    assert (await bench.spec()).state is SpecState.CANCELLED
    assert "label was removed" in bench.status(number)
    assert bench.sandboxes.sights == {}


async def test_worker_whose_lease_passed_on_in_the_middle_of_a_step_writes_nothing(bench: Bench) -> None:
    await start(bench)
    spec = await bench.spec()
    bench.clock.add(5)
    async with bench.db.write() as session:
        old = await claim_spec(session, spec.id, "slow", bench.clock())
    assert old is not None
    step = await Step.load(bench.parts, old)
    bench.clock.add(100)
    async with bench.db.write() as session:
        assert await claim_spec(session, spec.id, "quick", bench.clock()) is not None
    for write in (step.save(title="from behind"), step.add_note("from behind")):
        with pytest.raises(Fenced):
            await write
    found = await bench.spec()
    assert (found.title, found.notes, found.lease_owner) == ("Do it", [], "quick")


async def test_fact_recorded_while_the_step_looks_at_the_provider_gets_a_step_of_its_own(
    bench: Bench,
) -> None:
    await start(bench)
    spec = await bench.spec()
    looks = 0
    look = bench.sandboxes.fetch_sight

    async def counted(name: str) -> SandboxSight:
        nonlocal looks
        looks += 1
        if looks == 1:
            async with bench.db.write() as session:
                await record_fact(session, spec.id, bench.clock())
        return await look(name)

    bench.sandboxes.fetch_sight = counted  # type: ignore[method-assign]
    async with bench.db.write() as session:
        await record_fact(session, spec.id, bench.clock())
    await Engine(bench.parts).advance(spec.id)
    assert looks == 2
    found = await bench.spec()
    assert found.version == found.stepped_version


Play = Sequence[str]


async def play(bench: Bench, steps: Play) -> tuple[int, list[dict[str, Any]]]:
    number = bench.open_issue()
    actions = {
        "label": lambda: bench.label(number),
        "unlabel": lambda: bench.unlabel(number),
        "close": lambda: bench.github.close_issue(bench.name, number, "alice"),
        "reopen": lambda: bench.github.reopen_issue(bench.name, number, "alice"),
    }
    for step in steps:
        actions[step]()
    wanted = {"labeled", "unlabeled", "closed", "reopened"}
    return number, [one for one in bench.new_deliveries() if one["payload"].get("action") in wanted]


@pytest.mark.parametrize(
    ("steps", "works"),
    [
        (("label", "unlabel", "label"), True),
        (("label", "close", "reopen"), True),
        (("label", "unlabel"), False),
        (("label", "close"), False),
        (("close", "label", "reopen"), True),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, tuple) else "",
)
async def test_deliveries_in_any_order_end_as_the_issue_stands(
    bench: Bench, steps: Play, works: bool
) -> None:
    for order in itertools.permutations(range(len(steps))):
        number, deliveries = await play(bench, steps)
        await bench.receive([deliveries[position] for position in order])
        await bench.take_in()
        bench.clock.add(3)
        await bench.take_in()
        live = [
            spec for spec in await bench.specs()
            if spec.issue_number == number and spec.cancel_asked_at is None
        ]  # fmt: skip
        assert len(live) == (1 if works else 0), order


async def test_two_hooks_that_tell_of_the_same_label_start_one_spec(bench: Bench) -> None:
    bench.label(bench.open_issue())
    deliveries = bench.new_deliveries()
    await bench.receive(deliveries)
    await bench.receive(deliveries, suffix="-other-hook")
    await bench.receive(deliveries)
    await bench.take_in()
    assert len(await bench.specs()) == 1
    rows = await bench.deliveries()
    assert len(rows) == 2 * len(deliveries)
    assert {row.state for row in rows} <= {DeliveryState.HANDLED, DeliveryState.IGNORED}


async def test_delivery_taken_in_by_two_workers_at_once_counts_once(bench: Bench) -> None:
    bench.label(bench.open_issue())
    labeled = [one for one in bench.new_deliveries() if one["payload"].get("action") == "labeled"]
    await bench.receive(labeled)
    one, two = Intake(bench.parts), Intake(bench.another_worker())
    guid = str(labeled[0]["guid"])
    first = asyncio.create_task(one.take_in(guid))
    while not (await bench.deliveries())[0].attempts:
        await asyncio.sleep(0)
    bench.clock.add(CLAIM.total_seconds() + 1)
    verdicts = [await two.take_in(guid), await first]
    assert len([verdict for verdict in verdicts if verdict is not None]) == 1
    assert len(await bench.specs()) == 1


async def test_what_our_own_bot_did_asks_for_nothing(bench: Bench) -> None:
    number = bench.open_issue()
    bench.label(number)
    deliveries = bench.new_deliveries()
    identity = await bench.parts.identity()
    for one in deliveries:
        one["payload"]["sender"] |= {
            "id": int(identity.bot_user_id),
            "login": identity.bot_login,
            "type": "Bot",
        }
    await bench.receive(deliveries)
    await bench.rest()
    assert await bench.specs() == []
    assert {row.reason for row in await bench.deliveries()} == {"made by this App"}
    assert bench.writes() == []


async def test_pull_request_closed_and_opened_again_goes_on_whichever_is_heard_last(bench: Bench) -> None:
    await start(bench)
    number = bench.github.pulls(bench.name)[0]["number"]
    bench.new_deliveries()
    bench.github.close_pull(bench.name, number, "alice")
    bench.github.reopen_pull(bench.name, number, "alice")
    await bench.receive(list(reversed(bench.new_deliveries())))
    await bench.rest()
    found = await bench.spec()
    assert (found.pull_state, found.cancel_asked_at) == ("open", None)


@pytest.mark.parametrize("reused", [False, True])
async def test_delivery_from_before_a_rename_is_heard_late_then_the_work_goes_on_under_the_new_name(
    bench: Bench, reused: bool
) -> None:
    number = await start(bench)
    old, owner = bench.name, bench.name.split("/", maxsplit=1)[0]
    bench.github.comment(bench.name, number, "carol", "Use tabs.")
    late = bench.new_deliveries()
    bench.github.rename_repo(old, "alice", "toolbox")
    bench.name = f"{owner}/toolbox"
    if reused:
        bench.github.create_repo(owner, old.split("/")[1], {"README.md": "x"}, private=False, by="alice")
    bench.github.comment(bench.name, number, "carol", "Use spaces.")
    await bench.receive(bench.new_deliveries())
    await bench.take_in()
    await bench.receive(late)
    await bench.rest()
    async with bench.db.read() as session:
        known = await find_repository(session, bench.repo_id)
    assert known is not None
    assert known.name == "toolbox"
    assert [one.content for one in await bench.messages()] == ["Use spaces.", "Use tabs."]
    assert {one.state for one in await bench.deliveries()} <= {DeliveryState.HANDLED, DeliveryState.IGNORED}
    await bench.hand_in()
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IN_REVIEW
