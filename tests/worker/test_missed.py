"""What GitHub could not tell: failed deliveries are asked for again, live state is read now and then."""

from __future__ import annotations

from typing import Any

from app.domain.states import SpecState
from tests.worker.bench import LABEL, Bench
from worker.supervise.live_look import LiveLook
from worker.supervise.missed_deliveries import MissedDeliveries

HOURS = 3600.0


def attempts(bench: Bench) -> list[dict[str, Any]]:
    """Every redelivery of this repository's deliveries."""
    return [
        one for one in bench.github.deliveries()
        if one["redelivery"] and (one["payload"].get("repository") or {}).get("id") == bench.repo_id
    ]  # fmt: skip


def sent(bench: Bench) -> None:
    """Until GitHub has tried every delivery (nobody listens, so all fail)."""
    bench.github.wait_for(
        lambda: all(one["status"] for one in bench.github.deliveries()), what="the end of every attempt"
    )


def installations(bench: Bench) -> list[dict[str, Any]]:
    return [
        one for one in bench.github.deliveries("installation")
        if one["payload"]["installation"]["id"] == bench.installation_id
    ]  # fmt: skip


async def working(bench: Bench) -> int:
    """An issue whose agent is at work."""
    number = bench.open_issue()
    bench.label(number)
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    return number


# ------------------------------------------------------------ failed deliveries


async def test_failed_deliveries_are_asked_for_once_each(bench: Bench) -> None:
    number = bench.open_issue()
    bench.label(number)
    sent(bench)
    look = MissedDeliveries(bench.parts)
    assert await look.look() >= 2
    sent(bench)
    asked = [one["guid"] for one in attempts(bench)]
    assert len(asked) == len(set(asked)) >= 2
    bench.clock.add(HOURS)
    assert await look.look() == 0
    assert await MissedDeliveries(bench.another_worker()).look() == 0
    sent(bench)
    assert len(attempts(bench)) == len(asked)


async def test_delivery_that_is_stored_here_is_not_asked_for(bench: Bench) -> None:
    bench.open_issue()
    sent(bench)
    await bench.receive(bench.new_deliveries())
    stored = {one.id for one in await bench.deliveries()}
    await MissedDeliveries(bench.parts).look()
    sent(bench)
    assert not stored & {one["guid"] for one in attempts(bench)}


async def test_one_worker_at_a_time_looks_and_not_again_within_five_minutes(bench: Bench) -> None:
    first, second = MissedDeliveries(bench.parts), MissedDeliveries(bench.another_worker())
    await first.look()
    bench.open_issue()
    sent(bench)
    assert await first.look() == 0
    assert await second.look() == 0
    bench.clock.add(301)
    assert await second.look() >= 1


async def test_failures_older_than_three_days_are_left_alone(bench: Bench) -> None:
    bench.open_issue()
    sent(bench)
    bench.clock.add(73 * HOURS)
    assert await MissedDeliveries(bench.parts).look() == 0


# ------------------------------------------------------------ live state


async def test_issue_closed_without_a_word_then_the_work_is_cancelled(bench: Bench) -> None:
    number = await working(bench)
    bench.github.close_issue(bench.name, number, "alice")
    await found_and_ended(bench, SpecState.CANCELLED)


async def test_label_removed_without_a_word_then_the_work_is_cancelled(bench: Bench) -> None:
    number = await working(bench)
    bench.unlabel(number)
    await found_and_ended(bench, SpecState.CANCELLED)


async def test_pull_request_merged_without_a_word_then_the_work_is_completed(bench: Bench) -> None:
    await working(bench)
    await bench.hand_in()
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    bench.github.merge_pull(bench.name, bench.github.pulls(bench.name)[0]["number"], "alice")
    await found_and_ended(bench, SpecState.COMPLETED)


async def test_nothing_changed_then_nothing_is_found(bench: Bench) -> None:
    await working(bench)
    assert await LiveLook(bench.parts).look() == 0


async def found_and_ended(bench: Bench, state: SpecState) -> None:
    look = LiveLook(bench.parts)
    assert await look.look() == 1
    for _ in range(12):
        await bench.rest(listen=False)
        bench.clock.add(5)
    assert (await bench.spec()).state is state
    bench.clock.add(601)
    assert await look.look() == 0


async def test_label_nobody_heard_of_then_one_comment_asks_to_set_it_again(bench: Bench) -> None:
    await bench.receive(installations(bench))
    await bench.rest()
    number = bench.open_issue()
    bench.label(number)
    look = LiveLook(bench.parts)
    assert await look.look() == 0, "its delivery may still be on its way"
    for _ in range(3):
        bench.clock.add(700)
        await look.look()
        await bench.rest(listen=False)
    said = [text for text in bench.comments(number) if "set it again" in text]
    assert len(said) == 1
    assert f"`{LABEL}`" in said[0]
    assert await bench.specs() == []


async def test_label_that_was_heard_of_then_nothing_is_said(bench: Bench) -> None:
    await bench.receive(installations(bench))
    number = bench.open_issue()
    bench.label(number, by="bob")  # may only read: refused with a notice of its own
    await bench.rest()
    before = bench.comments(number)
    bench.clock.add(700)
    await LiveLook(bench.parts).look()
    await bench.rest(listen=False)
    assert bench.comments(number) == before
