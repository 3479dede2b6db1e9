"""The webhook was away, or a worker died while it asked: every delivery arrives in the end, none is asked for in vain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet

import pytest

from app.domain.errors import OutsideError
from tests.supervise.conftest import Webhook
from tests.worker.bench import Bench
from worker.supervise.missed_deliveries import BURST, MissedDeliveries

EVERY_S = 301


def sent(bench: Bench) -> None:
    bench.github.wait_for(lambda: bench.github.pending_deliveries() == 0, what="the end of every attempt")


def of_repository(bench: Bench, *, asked: bool) -> list[str]:
    return [
        one["guid"] for one in bench.github.deliveries("issues")
        if one["redelivery"] is asked and one["payload"]["repository"]["id"] == bench.repo_id
    ]  # fmt: skip


def fail(bench: Bench, webhook: Webhook, issues: int = 1, status: int = 503) -> set[str]:
    """GUIDs of that many new issues, which the webhook answered with `status`."""
    before = set(of_repository(bench, asked=False))
    webhook.status = status
    for _ in range(issues):
        bench.open_issue()
    sent(bench)
    return set(of_repository(bench, asked=False)) - before


async def look_for_an_hour(bench: Bench, look: MissedDeliveries) -> None:
    for _ in range(12):
        bench.clock.add(EVERY_S)
        await look.look()
        sent(bench)


def something_arrives(bench: Bench, webhook: Webhook) -> None:
    """A second later than what was before, by GitHub's clock, which has no fractions."""
    webhook.status = 202
    bench.github.advance_clock(1)
    bench.open_issue("It works again")
    sent(bench)


async def test_webhook_away_for_hours_while_the_worker_runs_then_all_arrive_once_it_is_back(
    bench: Bench, webhook: Webhook
) -> None:
    failed = fail(bench, webhook, 2)
    look = MissedDeliveries(bench.parts)
    await look_for_an_hour(bench, look)
    failed |= fail(bench, webhook, 2)
    await look_for_an_hour(bench, look)
    assert Counter(of_repository(bench, asked=True)) == dict.fromkeys(failed, 1), "in vain, but once"
    something_arrives(bench, webhook)
    await look_for_an_hour(bench, look)
    assert failed <= set(webhook.taken)
    assert Counter(webhook.taken).most_common(1)[0][1] == 1
    assert Counter(of_repository(bench, asked=True)) == dict.fromkeys(failed, 2)


async def test_new_worker_knows_as_much_as_the_one_that_asked(bench: Bench, webhook: Webhook) -> None:
    failed = fail(bench, webhook)
    await MissedDeliveries(bench.parts).look()
    sent(bench)
    something_arrives(bench, webhook)
    for _ in range(3):
        bench.clock.add(EVERY_S)
        await MissedDeliveries(bench.another_worker()).look()
        sent(bench)
    assert failed <= set(webhook.taken)
    assert Counter(of_repository(bench, asked=True)) == dict.fromkeys(failed, 2)


@pytest.mark.parametrize(("status", "times"), [(400, 1), (413, 1), (401, 3), (500, 3), (404, 3)])
async def test_delivery_refused_each_time_is_asked_for_a_few_times_at_most(
    bench: Bench, webhook: Webhook, status: int, times: int
) -> None:
    failed = fail(bench, webhook, status=status)
    look = MissedDeliveries(bench.parts)
    for _ in range(6):
        webhook.status = status
        bench.clock.add(EVERY_S)
        await look.look()
        sent(bench)
        something_arrives(bench, webhook)
    asked = Counter(of_repository(bench, asked=True))
    assert {guid: asked[guid] for guid in failed} == dict.fromkeys(failed, times)


@pytest.mark.parametrize("applied", [True, False], ids=["asked and not heard of it", "not asked"])
async def test_worker_dies_while_it_asks_then_the_next_one_asks_for_the_others_and_for_none_twice(
    bench: Bench, webhook: Webhook, applied: bool
) -> None:
    failed = fail(bench, webhook, 3)
    webhook.status = 202
    bench.github.add_fault(
        method="POST", path="/attempts$", token="app", skip=1, times=1, drop=True, apply=applied
    )
    with pytest.raises(OutsideError):
        await MissedDeliveries(bench.parts).look()
    sent(bench)
    bench.clock.add(EVERY_S)
    await MissedDeliveries(bench.another_worker()).look()
    sent(bench)
    assert failed <= set(webhook.taken)
    asked = Counter(of_repository(bench, asked=True))
    assert {guid: asked[guid] for guid in failed} == dict.fromkeys(failed, 1)


@pytest.mark.parametrize("status", [422, 403])
async def test_github_refuses_to_send_one_again_then_the_others_come_and_that_one_is_asked_for_later(
    bench: Bench, webhook: Webhook, status: int
) -> None:
    failed = fail(bench, webhook, 3)
    webhook.status = 202
    bench.github.add_fault(method="POST", path="/attempts$", token="app", skip=1, times=1, status=status)
    await MissedDeliveries(bench.parts).look()
    sent(bench)
    assert len(failed & set(webhook.taken)) == 2
    bench.clock.add(EVERY_S)
    await MissedDeliveries(bench.another_worker()).look()
    sent(bench)
    assert failed <= set(webhook.taken)
    asked = Counter(of_repository(bench, asked=True))
    assert {guid: asked[guid] for guid in failed} == dict.fromkeys(failed, 1)


async def test_github_asks_for_a_pause_then_nothing_is_asked_before_its_end(
    bench: Bench, webhook: Webhook
) -> None:
    failed = fail(bench, webhook)
    webhook.status = 202
    bench.github.add_fault(
        path="/app/hook/deliveries", token="app", times=1, status=429, headers={"Retry-After": "1800"}
    )
    look, other = MissedDeliveries(bench.parts), MissedDeliveries(bench.another_worker())
    with pytest.raises(OutsideError):
        await look.look()
    before = len(listings(bench))
    for _ in range(5):
        bench.clock.add(EVERY_S)
        assert (await look.look(), await other.look()) == (0, 0)
    assert len(listings(bench)) == before
    bench.clock.add(EVERY_S)
    await other.look()
    sent(bench)
    assert failed <= set(webhook.taken)


def listings(bench: Bench) -> list[object]:
    return [one for one in bench.github.requests(method="GET") if one["path"] == "/app/hook/deliveries"]


async def test_many_have_failed_then_they_are_asked_for_a_second_apart_after_the_first_ten(
    bench: Bench, webhook: Webhook
) -> None:
    failed = fail(bench, webhook, BURST + 4)
    webhook.status = 202
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    asked = await MissedDeliveries(bench.parts, sleep).look()
    sent(bench)
    assert arrived(webhook, failed)
    assert slept == [1] * (asked - BURST)


def arrived(webhook: Webhook, failed: AbstractSet[str]) -> bool:
    return failed <= set(webhook.taken)
