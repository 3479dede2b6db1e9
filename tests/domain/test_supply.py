"""Who may start a sandbox, who waits, in which order."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from app.domain.supply import (
    Granted,
    Queued,
    Shortage,
    Spent,
    Supply,
    Taken,
    Waiting,
    decide_grant,
    describe_wait,
    order_queue,
)

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def waiting(name: str, repo_id: int, minute: int = 0) -> Waiting:
    return Waiting(name, repo_id, T0 + timedelta(minutes=minute), Shortage.SANDBOXES)


def grant(
    me: Waiting, *queue: Waiting, live: dict[int, int] | None = None, most: int = 2
) -> Granted | Queued:
    return decide_grant(me, queue, Taken(live or {}, Spent(), Spent()), Supply(most), 10.0)


def test_room_is_free_then_at_once() -> None:
    assert grant(waiting("a", 1), live={1: 1}) == Granted(10.0)


def test_no_room_then_queued_with_its_place() -> None:
    assert grant(waiting("a", 1), live={1: 1, 2: 1}) == Queued(Shortage.SANDBOXES, 1)
    late = waiting("c", 1, 9)
    assert grant(late, waiting("a", 1, 1), waiting("b", 1, 2), live={1: 2}) == Queued(Shortage.SANDBOXES, 3)


def test_room_is_free_and_others_came_first_then_they_go_first() -> None:
    first, second = waiting("a", 1, 1), waiting("b", 1, 2)
    assert grant(second, first, second, live={3: 1}) == Queued(Shortage.SANDBOXES, 2)
    assert grant(first, first, second, live={3: 1}) == Granted(10.0)


def test_repository_with_many_waiting_then_another_ones_first_comes_before_its_second() -> None:
    queue = [waiting(f"a{number}", 1, number) for number in range(5)] + [waiting("b", 2, 9)]
    assert order_queue(queue, {}) == ["a0", "b", "a1", "a2", "a3", "a4"]
    assert order_queue(queue, {1: 2}) == ["b", "a0", "a1", "a2", "a3", "a4"]


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 50)), max_size=20), st.integers(1, 10))
def test_any_queue_is_served_whole_once_each_and_never_beyond_the_limit(
    asked: list[tuple[int, int]], most: int
) -> None:
    queue = [waiting(f"s{number}", repo, minute) for number, (repo, minute) in enumerate(asked)]
    assert sorted(order_queue(queue, {})) == sorted(one.spec_id for one in queue)
    granted = [one for one in queue if isinstance(grant(one, *queue, most=most), Granted)]
    assert len(granted) == min(most, len(queue))


@pytest.mark.parametrize(
    ("spec", "day", "answer"),
    [
        (Spent(), Spent(), Granted(10.0)),
        (Spent(14.0), Spent(), Granted(6.0)),
        (Spent(4.0, 10.0), Spent(), Granted(6.0)),
        (Spent(), Spent(47.0), Granted(3.0)),
        (Spent(19.5), Spent(), Queued(Shortage.SPEC_BUDGET)),
        (Spent(25.0), Spent(), Queued(Shortage.SPEC_BUDGET)),
        (Spent(10.0, 9.5), Spent(), Queued(Shortage.SPEC_BUDGET_HELD)),
        (Spent(), Spent(49.5), Queued(Shortage.DAY_BUDGET, 1)),
        (Spent(), Spent(10.0, 40.0), Queued(Shortage.DAY_BUDGET_HELD, 1)),
    ],
)
def test_budgets_cap_what_a_sandbox_gets_and_next_to_nothing_starts_none(
    spec: Spent, day: Spent, answer: Granted | Queued
) -> None:
    taken = Taken({}, spec, day)
    assert decide_grant(waiting("a", 1), [], taken, Supply(None, 20.0, 50.0), 10.0) == answer


def test_money_of_the_day_goes_to_who_has_waited_longest_for_it_in_the_same_repository() -> None:
    taken, supply = Taken({}, Spent(), Spent(35.0)), Supply(day_budget_usd=50.0)
    queue = [replace(waiting(f"a{number}", 1, number), shortage=Shortage.DAY_BUDGET) for number in range(4)]
    queue.append(replace(waiting("b", 2), shortage=Shortage.DAY_BUDGET_HELD))
    answers = [decide_grant(one, queue, taken, supply, 10.0) for one in queue[:4]]
    assert answers == [
        Granted(10.0), Granted(5.0), Queued(Shortage.DAY_BUDGET_HELD, 3), Queued(Shortage.DAY_BUDGET_HELD, 4),
    ]  # fmt: skip
    new = Waiting("c", 1, T0)
    assert decide_grant(new, queue, taken, supply, 10.0) == Queued(Shortage.DAY_BUDGET_HELD, 5)


def test_no_limits_then_always_granted() -> None:
    assert decide_grant(
        waiting("a", 1), [], Taken({1: 999}, Spent(1e6), Spent(1e6)), Supply(), 10.0
    ) == Granted(10.0)


def test_what_is_waited_for_is_told_with_the_place() -> None:
    assert describe_wait("sandboxes", 2) == "a free sandbox (place 2 in the queue)"
    assert "SPEC_BUDGET_USD" in describe_wait("spec_budget", None)
    assert describe_wait("a later release's word", None) == ""
    assert describe_wait(None, None) == ""
