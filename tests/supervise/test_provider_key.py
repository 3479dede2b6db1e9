"""The sandbox provider takes the operator's key no more while agents are at work in its sandboxes."""

from __future__ import annotations

import pytest

from app.domain.errors import Denied
from app.domain.ports import SandboxSight
from app.domain.states import SandboxState, SpecState
from tests.supervise.test_supply import refuse_key
from tests.worker.bench import Bench
from tests.worker.test_comments import say
from tests.worker.test_life import finish, start
from worker.flow.wrap_up import WRAP_UP_S

TOLD = "the operator, whose key the sandbox provider refuses"


def mend_key(bench: Bench) -> None:
    for name in ("ensure_created", "fetch_sight", "ensure_stopped", "ensure_deleted"):
        delattr(bench.sandboxes, name)


async def at_work(bench: Bench) -> int:
    number = await start(bench)
    await bench.report(3)
    await bench.rest()
    return number


@pytest.mark.parametrize("how", ["unlabeled", "stop", "stop now"])
async def test_work_is_cancelled_then_it_ends_with_what_was_handed_over_and_the_sandbox_goes_once_the_key_is_mended(
    bench: Bench, how: str
) -> None:
    number = await at_work(bench)
    await bench.checkpoint()
    refuse_key(bench)
    if how == "unlabeled":
        bench.unlabel(number)
    else:
        say(bench, number, f"/agent {how}")
    await bench.rest()
    if how != "stop now":
        assert (await bench.spec()).state is SpecState.IMPLEMENTING
        assert [one.message_type for one in await bench.messages()][-1] == "system", "it hears that it ends"
        await bench.pass_time(WRAP_UP_S)
    await bench.pass_time(30)
    assert (await bench.spec()).state is SpecState.CANCELLED
    assert "is on the branch" in bench.status(number)
    assert "could not be removed, since the sandbox provider refuses the operator's key" in bench.status(
        number
    )
    assert bench.git("show", f"{bench.github.pulls(bench.name)[0]['head']['sha']}:work.txt") == "half\n"
    (box,) = await bench.boxes()
    assert (box.state, box.reason) == (SandboxState.COMPLETED, "cancelled"), "its token is worth nothing now"
    assert len(bench.sandboxes.sights) == 1
    mend_key(bench)
    await bench.pass_time(90, 15)
    assert bench.sandboxes.sights == {}
    assert bench.sandboxes.deleted == [bench.sandboxes.newest.name]


async def test_persons_own_account_refuses_when_work_is_cancelled_then_it_is_cancelled_and_told(
    bench: Bench,
) -> None:
    number = await at_work(bench)

    async def refuses(*_: object) -> SandboxSight:
        raise Denied("the Daytona key of user 11 can't be used (401)", reason="account")

    for name in ("fetch_sight", "ensure_stopped", "ensure_deleted"):
        setattr(bench.sandboxes, name, refuses)
    bench.unlabel(number)
    await bench.rest()
    await bench.pass_time(60)
    assert (await bench.spec()).state is SpecState.CANCELLED
    assert "could not be removed: the Daytona key of user 11" in bench.status(number)


async def test_agent_at_work_cannot_be_looked_at_then_that_is_told_until_the_key_is_mended_and_nothing_else_changes(
    bench: Bench,
) -> None:
    number = await at_work(bench)
    refuse_key(bench)
    await bench.pass_time(90, 15)
    await bench.report(4)
    await bench.rest()
    assert TOLD in bench.status(number)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    mend_key(bench)
    await bench.pass_time(90, 15)
    assert "Waits for" not in bench.status(number)
    await finish(bench, number)
    assert len(bench.sandboxes.orders) == 1


async def test_work_is_paused_then_it_says_what_it_waits_for_and_pauses_once_the_key_is_mended(
    bench: Bench,
) -> None:
    number = await at_work(bench)
    await bench.checkpoint()
    refuse_key(bench)
    say(bench, number, "/agent pause")
    await bench.rest()
    await bench.pass_time(120, 15)
    assert TOLD in bench.status(number)
    assert "Pausing" in bench.status(number)
    mend_key(bench)
    await bench.pass_time(150, 15)
    assert (await bench.spec()).state is SpecState.PAUSED
    assert "Waits for" not in bench.status(number)
    assert bench.sandboxes.sights == {}


async def test_budget_is_used_up_then_it_says_what_it_waits_for_and_fails_for_the_budget_once_the_key_is_mended(
    bench: Bench,
) -> None:
    number = await at_work(bench)
    await bench.report(4, trouble="budget")
    refuse_key(bench)
    await bench.pass_time(120, 15)
    assert TOLD in bench.status(number)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    mend_key(bench)
    await bench.pass_time(180, 15)
    assert (await bench.spec()).state is SpecState.FAILED
    assert "budget of the run was used up" in bench.status(number)
    assert bench.sandboxes.sights == {}


async def test_work_in_review_then_a_waiting_sandbox_goes_once_the_key_is_mended(bench: Bench) -> None:
    number = await at_work(bench)
    await bench.hand_in()
    await bench.rest()
    bench.sandboxes.end(bench.sandboxes.newest.name, 0)
    refuse_key(bench)
    await bench.pass_time(120, 15)
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert TOLD in bench.status(number)
    mend_key(bench)
    await bench.pass_time(120, 15)
    assert "Waits for" not in bench.status(number)
    assert bench.sandboxes.sights == {}
