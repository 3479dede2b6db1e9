"""One write a second on average for each installation, what is urgent first, 490 an hour; pauses are kept."""

from __future__ import annotations

from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select

from app.db.engine import Database
from app.db.models import GitHubWrite
from app.db.pace import DatabasePace, writing
from app.db.writes import claim_write, get_pressure
from app.domain.errors import RetryAt
from app.domain.ids import InstallationId
from app.domain.pace import BACKGROUND_SHARE, HOUR, ROOMS, WRITE_GAP, Pressure, Urgency
from app.domain.states import SpecState
from tests.db.rows import add_spec, set_spec

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ONE, OTHER, THIRD = InstallationId(1), InstallationId(2), InstallationId(3)


async def claim(db: Database, at_s: float, urgency: Urgency = Urgency.WORK) -> datetime | None:
    async with db.write() as session:
        return await claim_write(session, ONE, NOW + timedelta(seconds=at_s), urgency)


async def count_writes(db: Database, seconds: int, urgency: Urgency) -> int:
    """How many writes a caller that tries ten times a second gets."""
    return [await claim(db, tick / 10, urgency) for tick in range(seconds * 10)].count(None)


async def fill(db: Database, count: int, at_s: float) -> None:
    """As if that many writes had been made then."""
    async with db.write() as session:
        for number in range(count):
            at = NOW + timedelta(seconds=at_s + number / 1000)
            session.add(GitHubWrite(installation_id=ONE, place_at=at, written_at=at))


async def test_writes_come_to_one_a_second_beyond_the_burst(db: Database) -> None:
    assert await count_writes(db, 20, Urgency.WORK) <= 20 + ROOMS[Urgency.WORK].burst / WRITE_GAP + 1


async def test_background_writes_keep_a_second_between_each_other(db: Database) -> None:
    assert await count_writes(db, 5, Urgency.BACKGROUND) <= 6


async def test_final_states_go_at_once_where_work_and_progress_wait(db: Database) -> None:
    await count_writes(db, 2, Urgency.WORK)
    assert await claim(db, 1.95, Urgency.PROGRESS) is not None
    assert await claim(db, 1.95, Urgency.WORK) is not None
    assert [await claim(db, 1.95, Urgency.FINAL) for _ in range(4)] == [None] * 4
    # and go on at a write a second, while the others wait until the finals leave something over
    assert [await claim(db, 3 + second, Urgency.FINAL) for second in range(5)] == [None] * 5
    assert await claim(db, 8, Urgency.WORK) is not None


async def test_hour_is_full_for_progress_before_it_is_for_work_and_last_for_final_states(
    db: Database,
) -> None:
    await fill(db, ROOMS[Urgency.PROGRESS].per_hour, -1800)
    assert await claim(db, 0, Urgency.PROGRESS) == NOW + timedelta(seconds=1800)
    assert await claim(db, 0, Urgency.WORK) is None
    await fill(db, ROOMS[Urgency.FINAL].per_hour - ROOMS[Urgency.PROGRESS].per_hour - 1, -900)
    assert await claim(db, 10, Urgency.WORK) is not None
    free_at = await claim(db, 10, Urgency.FINAL)
    assert free_at == NOW + timedelta(seconds=1800)
    assert await claim(db, 1801, Urgency.FINAL) is None


async def test_background_writes_have_a_share_of_a_full_hour_and_no_more(db: Database) -> None:
    await fill(db, ROOMS[Urgency.WORK].per_hour, -1800)
    assert await claim(db, 0, Urgency.WORK) is not None
    for number in range(BACKGROUND_SHARE):
        assert await claim(db, 2 * number, Urgency.BACKGROUND) is None
    free_at = await claim(db, 100, Urgency.BACKGROUND)
    assert free_at is not None
    assert timedelta(0) <= free_at - NOW - timedelta(seconds=1800) < timedelta(seconds=1), "its room is free"
    assert await claim(db, 100, Urgency.FINAL) is None
    await fill(db, ROOMS[Urgency.BACKGROUND].per_hour, 1900)
    assert await claim(db, 2000, Urgency.BACKGROUND) == NOW + HOUR, "the first of its share is an hour old"


async def test_writes_older_than_an_hour_are_forgotten(db: Database) -> None:
    await fill(db, 10, -HOUR.total_seconds() - 5)
    await claim(db, 0)
    async with db.read() as session:
        assert (await session.execute(select(func.count()).select_from(GitHubWrite))).scalar_one() == 1


async def test_pressure_counts_specs_at_work_and_the_writes_of_a_minute_and_an_hour(db: Database) -> None:
    for number, state in enumerate((SpecState.QUEUED, SpecState.IMPLEMENTING, SpecState.IN_REVIEW)):
        await set_spec(db, await add_spec(db, issue_number=number), state=state)
    await add_spec(db, issue_number=9, installation_id=OTHER)
    await fill(db, 3, -30)
    await fill(db, 5, -300)
    async with db.read() as session:
        assert await get_pressure(session, ONE, NOW) == Pressure(2, 3, 8)
        assert await get_pressure(session, OTHER, NOW) == Pressure(1, 0, 0)


async def test_progress_edit_is_put_off_without_waiting_and_work_waits_for_a_second_at_most(
    db: Database,
) -> None:
    times = iter(NOW + timedelta(milliseconds=step) for step in range(1000))
    pace = DatabasePace(db, lambda: next(times))
    with writing(Urgency.PROGRESS):
        for _ in range(3):
            await pace.before_write(ONE)
        with pytest.raises(RetryAt) as put_off:
            await pace.before_write(ONE)
    assert put_off.value.scope == "installation"
    with writing(Urgency.FINAL):
        await pace.before_write(ONE)
    went = 0
    with suppress(RetryAt):
        for went in range(20):  # noqa: B007 - how far it came is the point
            await pace.before_write(ONE)
    assert 4 <= went <= 8


async def test_those_who_are_put_off_come_back_one_after_the_other(db: Database) -> None:
    pace = DatabasePace(db, lambda: NOW)
    await fill(db, ROOMS[Urgency.WORK].per_hour, -60)

    async def turn(urgency: Urgency) -> float:
        with writing(urgency), pytest.raises(RetryAt) as put_off:
            await pace.before_write(ONE)
        return (put_off.value.at - (NOW - timedelta(seconds=60) + HOUR)).total_seconds()

    assert [round(await turn(Urgency.WORK)) for _ in range(4)] == [0, 1, 2, 3]
    await fill(db, ROOMS[Urgency.FINAL].per_hour - ROOMS[Urgency.WORK].per_hour, -59)
    assert round(await turn(Urgency.FINAL)) == 0, "final states queue among themselves"


async def test_work_does_not_queue_behind_background_writes(db: Database) -> None:
    pace = DatabasePace(db, lambda: NOW)
    with writing(Urgency.FINAL):
        for _ in range(10):
            await pace.before_write(ONE)

    async def turn(urgency: Urgency) -> float:
        with writing(urgency), pytest.raises(RetryAt) as put_off:
            await pace.before_write(ONE)
        return (put_off.value.at - NOW).total_seconds()

    assert [round(await turn(Urgency.BACKGROUND)) for _ in range(4)] == [10, 11, 12, 13]
    assert round(await turn(Urgency.WORK)) == 2


async def test_pauses_that_github_asked_for_hold_their_own_installations_and_survive_a_restart(
    db: Database,
) -> None:
    clock = lambda: NOW  # noqa: E731 - a fixed clock
    until = {ONE: NOW + timedelta(seconds=60), OTHER: NOW + timedelta(seconds=20)}
    pace = DatabasePace(db, clock)
    for installation_id, at in until.items():
        await pace.before_write(installation_id)
        await pace.after_limit(installation_id, at)
        await pace.after_limit(installation_id, NOW + timedelta(seconds=5))
    async with aclosing(Database(db.url)) as of_another_process:
        restarted = DatabasePace(of_another_process, clock)
        for call in (restarted.before_read, restarted.before_write):
            for installation_id, at in until.items():
                with pytest.raises(RetryAt) as put_off:
                    await call(installation_id)
                assert put_off.value.at == at
            await call(THIRD)
        later = DatabasePace(of_another_process, lambda: until[OTHER])
        await later.before_read(OTHER)
        await later.before_write(OTHER)
        with pytest.raises(RetryAt):
            await later.before_write(ONE)
