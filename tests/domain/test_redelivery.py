"""Which failed deliveries are to be sent again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

from hypothesis import given, strategies as st

from app.domain.ports import HookDelivery
from app.domain.redelivery import MAX_REDELIVERIES, decide_missed

T0 = datetime(2026, 3, 1, tzinfo=UTC)
NOTHING: frozenset[str] = frozenset()


def attempt(guid: str, at_s: int, status: int, *, again: bool = False) -> HookDelivery:
    return HookDelivery(at_s, guid, T0 + timedelta(seconds=at_s), status, again)


def wanted(*attempts: HookDelivery, stored: frozenset[str] = NOTHING) -> list[str]:
    return [one.guid for one in decide_missed(attempts, stored).wanted]


def test_when_failed_and_never_asked_for_then_wanted_oldest_first() -> None:
    assert wanted(attempt("b", 2, 503), attempt("a", 1, 0), attempt("ok", 3, 202)) == ["a", "b"]


def test_when_stored_or_arrived_by_a_later_attempt_then_not_wanted() -> None:
    first, later = attempt("a", 1, 503), attempt("a", 9, 202, again=True)
    assert wanted(first, stored=frozenset({"a"})) == []
    assert wanted(later, first) == []


def test_when_failed_again_then_wanted_only_after_something_else_got_through() -> None:
    tries = attempt("a", 5, 0, again=True), attempt("a", 1, 0)
    assert wanted(*tries) == []
    assert wanted(*tries, attempt("b", 4, 202)) == []
    assert wanted(*tries, attempt("b", 6, 202)) == ["a"]


def test_when_refused_for_good_or_too_often_then_no_longer_wanted() -> None:
    through = attempt("b", 99, 202)
    assert wanted(attempt("a", 1, 400), through) == ["a"], "a proxy may have said so"
    assert wanted(attempt("a", 5, 400, again=True), attempt("a", 1, 0), through) == []
    often = [attempt("a", number, 0, again=True) for number in range(1, MAX_REDELIVERIES + 1)]
    assert wanted(attempt("a", 0, 0), *often[:-1], through) == ["a"]
    assert wanted(attempt("a", 0, 0), *often, through) == []


def test_when_something_is_open_then_the_time_of_its_first_attempt_is_told() -> None:
    decided = decide_missed([attempt("a", 5, 0, again=True), attempt("a", 1, 0), attempt("c", 3, 0)], NOTHING)
    assert decided.open_since == T0 + timedelta(seconds=1)
    assert decide_missed([attempt("a", 1, 202)], NOTHING).open_since is None


ATTEMPTS = st.lists(
    st.builds(
        attempt,
        st.sampled_from("abc"),
        st.integers(0, 20),
        st.sampled_from([0, 202, 400, 401, 503]),
        again=st.booleans(),
    ),
    max_size=12,
    unique_by=lambda one: one.delivery_id,  # GitHub gives every attempt a number of its own
)


@given(ATTEMPTS, st.frozensets(st.sampled_from("abc")), st.randoms(use_true_random=False))
def test_when_listed_in_any_order_then_the_same_is_wanted_each_once(
    attempts: list[HookDelivery], stored: frozenset[str], random: Random
) -> None:
    decided = decide_missed(attempts, stored)
    guids = [one.guid for one in decided.wanted]
    assert len(guids) == len(set(guids))
    assert not stored & set(guids)
    assert not {one.guid for one in attempts if one.succeeded} & set(guids)
    assert (decided.open_since is None) <= (guids == [])
    shuffled = list(attempts)
    random.shuffle(shuffled)
    assert {one.guid for one in decide_missed(shuffled, stored).wanted} == set(guids)
