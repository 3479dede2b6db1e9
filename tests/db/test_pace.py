"""One write a second on average for each installation, with a burst for what people wait for; pauses are kept."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.db.engine import Database
from app.db.installations import BURST, WRITE_GAP, claim_write
from app.db.pace import DatabasePace
from app.domain.errors import RetryAt
from app.domain.ids import InstallationId

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ONE, OTHER = InstallationId(1), InstallationId(2)


async def count_writes(db: Database, seconds: int, burst: timedelta) -> int:
    """How many writes a caller that tries ten times a second gets."""
    got = 0
    for tick in range(seconds * 10):
        async with db.write() as session:
            if await claim_write(session, ONE, NOW + timedelta(seconds=tick / 10), burst) is None:
                got += 1
    return got


async def test_writes_come_to_one_a_second_beyond_the_burst(db: Database) -> None:
    assert await count_writes(db, 20, BURST) <= 20 + BURST / WRITE_GAP + 1


async def test_background_writes_keep_a_second_between_each_other(db: Database) -> None:
    assert await count_writes(db, 5, timedelta(0)) <= 6


async def test_pause_that_github_asked_for_holds_one_installation_and_survives_a_restart(
    db: Database,
) -> None:
    clock = lambda: NOW  # noqa: E731 - a fixed clock
    pace = DatabasePace(db, clock)
    await pace.before_write(ONE)
    await pace.after_limit(ONE, NOW + timedelta(seconds=60))
    await pace.after_limit(ONE, NOW + timedelta(seconds=5))
    restarted = DatabasePace(db, clock)
    for call in (restarted.before_read, restarted.before_write):
        with pytest.raises(RetryAt) as put_off:
            await call(ONE)
        assert put_off.value.at == NOW + timedelta(seconds=60)
    await restarted.before_read(OTHER)
    await restarted.before_write(OTHER)
