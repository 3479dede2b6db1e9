"""The pace of writes and edits as pure decisions: bounded whatever is asked, lively while there is room."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from app.domain.pace import (
    BACKGROUND_SHARE,
    FULL_PAUSE,
    HOUR,
    LIVELINESS,
    LONGEST_DELAY,
    LONGEST_GAP,
    LONGEST_QUEUE,
    MINUTE,
    ROOMS,
    SHARE_PER_HOUR,
    EditKind,
    Pressure,
    Urgency,
    decide_background_free,
    decide_edit_wait,
    decide_retry_delay,
    decide_turn,
    decide_write,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ZERO = timedelta(0)
urgencies = st.sampled_from(Urgency)
kinds = st.sampled_from(EditKind)
pressures = st.builds(Pressure, st.integers(0, 500), st.integers(0, 100), st.integers(0, 700))
spans = st.timedeltas(ZERO, timedelta(hours=2))


class Account:
    """The writes of one installation, kept as the database keeps them."""

    def __init__(self) -> None:
        self.writes: deque[datetime] = deque()
        self.background: deque[datetime] = deque()
        self.next_write_at: datetime | None = None

    def claim(self, now: datetime, urgency: Urgency) -> bool:
        for kept in (self.writes, self.background):
            while kept and kept[0] <= now - HOUR:
                kept.popleft()
        hour_free_at = self._free_at(self.writes, ROOMS[urgency].per_hour)
        if urgency is Urgency.BACKGROUND:
            share = self._free_at(self.background, BACKGROUND_SHARE)
            hour_free_at = decide_background_free(
                hour_free_at, share, self._free_at(self.writes, SHARE_PER_HOUR)
            )
        free_at, next_write_at = decide_write(now, self.next_write_at, urgency, hour_free_at)
        assert (next_write_at is None) == (free_at > now)
        if next_write_at is None:
            return False
        self.next_write_at = next_write_at
        self.writes.append(now)
        if urgency is Urgency.BACKGROUND:
            self.background.append(now)
        return True

    @staticmethod
    def _free_at(writes: deque[datetime], full: int) -> datetime | None:
        return writes[-full] + HOUR if len(writes) >= full else None

    def pressure(self, now: datetime, live_specs: int) -> Pressure:
        return Pressure(live_specs, sum(at > now - MINUTE for at in self.writes), len(self.writes))


def busiest(writes: list[datetime], span: timedelta) -> int:
    """The most writes in any window of that length."""
    most, start = 0, 0
    for end, at in enumerate(writes):
        while writes[start] <= at - span:
            start += 1
        most = max(most, end - start + 1)
    return most


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0, 40), st.integers(1, 30), urgencies), max_size=150))
def test_writes_of_any_urgency_in_any_order_stay_below_githubs_minute_and_hour(
    asks: list[tuple[float, int, Urgency]],
) -> None:
    account, now, made = Account(), NOW, []
    for pause, count, urgency in asks:
        now += timedelta(seconds=pause)
        made += [now for _ in range(count) if account.claim(now, urgency)]
    assert busiest(made, MINUTE) < 80
    assert busiest(made, HOUR) < 500


def test_callers_who_never_stop_asking_stay_below_githubs_minute_and_hour() -> None:
    account, made = Account(), []
    for second in range(2 * 3600):
        now = NOW + timedelta(seconds=second)
        made += [now for urgency in reversed(Urgency) for _ in range(3) if account.claim(now, urgency)]
    assert busiest(made, MINUTE) < 80
    assert busiest(made, HOUR) < 500


@pytest.mark.parametrize("others", [[Urgency.PROGRESS], [Urgency.WORK], [Urgency.WORK, Urgency.PROGRESS]])
def test_background_writes_get_their_share_of_every_hour_beside_others_who_never_stop_asking(
    others: list[Urgency],
) -> None:
    account, made = Account(), 0
    for second in range(3 * 3600):
        now = NOW + timedelta(seconds=second)
        for urgency in others:
            account.claim(now, urgency)
        if second >= 3600:  # the others have filled an hour before
            made += account.claim(now, Urgency.BACKGROUND)
    assert made >= 2 * BACKGROUND_SHARE


def test_background_writes_that_never_stop_leave_the_hour_to_those_that_come_later() -> None:
    account = Account()
    made = sum(account.claim(NOW + timedelta(seconds=second), Urgency.BACKGROUND) for second in range(3600))
    assert made == ROOMS[Urgency.BACKGROUND].per_hour
    assert all(
        account.claim(NOW + HOUR, urgency) for urgency in (Urgency.PROGRESS, Urgency.WORK, Urgency.FINAL)
    )


@given(spans, urgencies, st.one_of(st.none(), spans))
def test_more_urgent_writes_never_wait_longer(
    ahead: timedelta, urgency: Urgency, hour_free_in: timedelta | None
) -> None:
    hour_free_at = NOW + hour_free_in if hour_free_in is not None else None
    later = decide_write(NOW, NOW + ahead, urgency, hour_free_at)[0]
    assert decide_write(NOW, NOW + ahead, Urgency.FINAL, hour_free_at)[0] <= later


@given(spans, st.one_of(st.none(), st.timedeltas(timedelta(hours=-2), timedelta(hours=2))))
def test_turn_is_never_before_there_is_room_nor_far_behind(
    free_in: timedelta, turn_in: timedelta | None
) -> None:
    turn_at = NOW + turn_in if turn_in is not None else None
    mine, following = decide_turn(NOW + free_in, turn_at)
    assert NOW + free_in <= mine <= NOW + free_in + LONGEST_QUEUE
    assert following > mine


@given(pressures, kinds, spans)
def test_edit_wait_is_bounded_and_never_negative(
    pressure: Pressure, kind: EditKind, since_last: timedelta
) -> None:
    assert ZERO <= decide_edit_wait(pressure, kind, since_last) <= LONGEST_GAP


@given(pressures, kinds, spans, st.integers(1, 100), st.integers(0, 200))
def test_more_specs_or_more_writes_never_make_edits_livelier(
    pressure: Pressure, kind: EditKind, since_last: timedelta, specs: int, writes: int
) -> None:
    room = LIVELINESS[kind].per_hour - pressure.last_hour
    before = decide_edit_wait(pressure, kind, since_last)
    more = Pressure(pressure.live_specs + specs, pressure.last_minute, pressure.last_hour)
    assert decide_edit_wait(more, kind, since_last) >= before
    if room > writes:  # a full hour is looked at again after a fixed pause instead
        fuller = Pressure(pressure.live_specs, pressure.last_minute, pressure.last_hour + writes)
        assert decide_edit_wait(fuller, kind, since_last) >= before


@given(pressures, spans)
def test_news_never_wait_longer_than_larger_numbers(pressure: Pressure, since_last: timedelta) -> None:
    news = decide_edit_wait(pressure, EditKind.STATE, since_last)
    numbers = decide_edit_wait(pressure, EditKind.COUNTERS, since_last)
    assert news <= numbers or numbers == FULL_PAUSE


@given(kinds, st.integers(0, 50), st.integers(0, 100))
def test_full_hour_stops_progress_edits_and_leaves_the_rest_to_ends(
    kind: EditKind, specs: int, beyond: int
) -> None:
    pressure = Pressure(specs, 0, LIVELINESS[kind].per_hour + beyond)
    assert decide_edit_wait(pressure, kind, timedelta(days=1)) > ZERO
    assert LIVELINESS[kind].per_hour <= ROOMS[Urgency.PROGRESS].per_hour < ROOMS[Urgency.FINAL].per_hour


def test_one_spec_alone_is_told_of_every_few_seconds() -> None:
    account, edits = Account(), [NOW]
    for second in range(600):
        now = NOW + timedelta(seconds=second)
        wait = decide_edit_wait(account.pressure(now, 1), EditKind.COUNTERS, now - edits[-1])
        if wait == ZERO and account.claim(now, Urgency.PROGRESS):
            edits.append(now)
    gaps = [later - earlier for earlier, later in pairwise(edits)]
    assert gaps[0] == timedelta(seconds=8)
    assert max(gaps) <= timedelta(seconds=10)


@pytest.mark.parametrize("live_specs", [1, 5, 50, 200])
def test_specs_that_change_all_the_time_leave_room_for_ends(live_specs: int) -> None:
    """Three hours in which every spec always has news; in the last one, finals come beside them and go at once."""
    account, made, late = Account(), [], 0
    last = [NOW] * live_specs
    for second in range(0, 3 * 3600, 2):
        now = NOW + timedelta(seconds=second)
        for number in range(live_specs):
            if now - last[number] < timedelta(seconds=6):
                continue
            pressure = account.pressure(now, live_specs)
            if decide_edit_wait(pressure, EditKind.STATE, now - last[number]) > ZERO:
                break  # all are alike: who comes later would wait as well
            if account.claim(now, Urgency.PROGRESS):
                made.append(now)
                last[number] = now
        last.sort()
        if second >= 7200 and second % 60 == 0:
            late += not account.claim(now, Urgency.FINAL)
            made.append(now)
    assert busiest(made, MINUTE) < 80
    assert busiest(made, HOUR) < 500
    assert late == 0


@given(st.integers(0, 10_000), st.floats(0, 1))
def test_retry_delay_grows_from_nothing_to_its_longest(times: int, spread: float) -> None:
    delay = decide_retry_delay(times, spread)
    assert ZERO <= delay <= LONGEST_DELAY
    assert decide_retry_delay(times + 1, 1.0) >= delay
    if times >= 8:
        assert delay >= LONGEST_DELAY * 0.75
