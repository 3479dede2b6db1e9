"""The two ways to use the database, what it stores and what it refuses."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import select, text, update
from sqlalchemy.exc import DBAPIError, StatementError

from app.db.engine import BUSY_TIMEOUT_MS, Database
from app.db.models import Lock, Spec
from tests.db.rows import T0, add_spec, get_spec, set_spec


class Broken(Exception):
    pass


async def test_write_that_raises_keeps_nothing(db: Database) -> None:
    with pytest.raises(Broken):  # noqa: PT012 - it raises inside the transaction, which is the point
        async with db.write() as session:
            session.add(Lock(name="one", owner="me", until_at=T0))
            await session.flush()
            raise Broken
    async with db.read() as session:
        assert (await session.execute(select(Lock))).all() == []


async def test_read_keeps_nothing_that_was_written_in_it(db: Database) -> None:
    async with db.read() as session:
        session.add(Lock(name="one", owner="me", until_at=T0))
        await session.flush()
    async with db.read() as session:
        assert (await session.execute(select(Lock))).all() == []


async def test_reader_is_not_held_up_by_an_open_write(db: Database) -> None:
    spec_id = await add_spec(db)
    async with db.write() as session:
        await session.execute(update(Spec).where(Spec.id == spec_id).values(title="New"))
        async with asyncio.timeout(2):
            assert (await get_spec(db, spec_id)).title == "Count the ways"
    assert (await get_spec(db, spec_id)).title == "New"


async def test_reader_sees_one_moment_whatever_is_written_meanwhile(db: Database) -> None:
    spec_id = await add_spec(db)
    query = select(Spec.title).where(Spec.id == spec_id)
    async with db.read() as session:
        assert await session.scalar(query) == "Count the ways"
        await set_spec(db, spec_id, title="New")
        assert await session.scalar(query) == "Count the ways"
    assert (await get_spec(db, spec_id)).title == "New"


async def test_connections_that_the_server_has_closed_are_replaced_unnoticed(db: Database) -> None:
    """Those in use a moment ago as well as those that lay idle. SQLite has none."""
    if db.dialect == "sqlite":
        await db.ping()
        return
    await asyncio.gather(*(db.ping() for _ in range(4)))
    mine = "from pg_stat_activity where datname = current_database() and pid != pg_backend_pid()"
    other = Database(db.url)
    async with other.read() as session:
        assert await session.scalar(text(f"select count(pg_terminate_backend(pid, 5000)) {mine}"))
    for _ in range(4):
        assert await db.ping()
    await other.aclose()


async def test_rows_beyond_the_first_page_come_in_full_in_a_list_in_a_stream_and_from_a_change(
    db: Database,
) -> None:
    names = [f"{number:04}" for number in range(1000)]
    async with db.write() as session:
        session.add_all([Lock(name=name, owner="me", until_at=T0) for name in names])
    query = select(Lock.name).order_by(Lock.name)
    async with db.read() as session:
        assert list(await session.scalars(query)) == names
        found = await session.stream_scalars(query, execution_options={"yield_per": 100})
        assert [name async for name in found] == names
    async with db.write() as session:
        changed = await session.execute(update(Lock).values(owner="you").returning(Lock.name))
        assert sorted(name for (name,) in changed) == names


async def test_stream_that_is_left_early_holds_up_no_writer(db: Database) -> None:
    async with db.write() as session:
        session.add_all([Lock(name=f"{number}", owner="me", until_at=T0) for number in range(1000)])
    async with db.read() as session:
        found = await session.stream_scalars(select(Lock.name), execution_options={"yield_per": 10})
        async for _ in found:
            break
    async with asyncio.timeout(BUSY_TIMEOUT_MS / 2000), db.write() as session:
        await session.execute(update(Lock).values(owner="you"))


async def test_transaction_without_a_statement_leaves_nothing_behind(db: Database) -> None:
    for _ in range(20):  # more than the pool holds
        async with db.read():
            pass
        async with db.write():
            pass
    async with db.write() as session:
        session.add(Lock(name="one", owner="me", until_at=T0))
    async with db.read() as session:
        assert (await session.scalars(select(Lock.name))).all() == ["one"]


async def test_writers_cancelled_at_any_moment_however_often_hold_up_nobody(db: Database) -> None:
    chance = random.Random(3)
    kept: list[asyncio.Task[None]] = []  # what a task's traceback refers to must not hold a lock either

    async def write(name: str) -> None:
        async with db.write() as session:
            session.add(Lock(name=name, owner="me", until_at=T0))
            await session.flush()
            await session.execute(select(Lock).limit(1))

    for number in range(40):
        tasks = [asyncio.create_task(write(f"{number}-{n}")) for n in range(chance.randrange(1, 5))]
        for _ in range(chance.randrange(60)):
            await asyncio.sleep(0)
        for task in tasks * chance.randrange(1, 4):
            task.cancel()
            await asyncio.sleep(0)
        await asyncio.wait(tasks)
        kept += tasks
        async with asyncio.timeout(BUSY_TIMEOUT_MS / 2000):
            await write(f"{number}")


async def test_naive_time_is_refused(db: Database) -> None:
    spec_id = await add_spec(db)
    with pytest.raises(StatementError, match="naive time"):
        await set_spec(db, spec_id, due_at=datetime(2026, 3, 1, 12, 0))  # noqa: DTZ001


async def test_time_of_another_zone_comes_back_as_the_same_moment_in_utc(db: Database) -> None:
    spec_id = await add_spec(db)
    local = T0.astimezone(timezone(timedelta(hours=5, minutes=30))) + timedelta(microseconds=7)
    await set_spec(db, spec_id, due_at=local)
    found = (await get_spec(db, spec_id)).due_at
    assert found == local
    assert found.utcoffset() == timedelta(0)


async def test_misspelt_state_is_refused(db: Database) -> None:
    spec_id = await add_spec(db)
    with pytest.raises(DBAPIError):
        async with db.write() as session:
            await session.execute(
                text("UPDATE spec SET state = 'implemented' WHERE id = :id"), {"id": spec_id}
            )


async def test_row_of_a_spec_that_does_not_exist_is_refused(db: Database) -> None:
    with pytest.raises(DBAPIError):
        async with db.write() as session:
            await session.execute(
                text(
                    "INSERT INTO check_run (spec_id, head_sha, created_at) VALUES ('none', 'a', :now)"
                ).bindparams(now=T0 if db.dialect == "postgresql" else "2026-03-01T12:00:00.000000Z")
            )


ADDER = Path(__file__).parent / "adder.py"


async def test_two_processes_write_at_once_without_a_lost_update(tmp_path: Path, db: Database) -> None:
    spec_id = await add_spec(db)
    command = [sys.executable, str(ADDER), db.engine.url.render_as_string(hide_password=False), spec_id, "40"]
    running = [subprocess.Popen(command, cwd=ADDER.parents[2]) for _ in range(2)]
    codes = [await asyncio.to_thread(process.wait, 60) for process in running]
    assert codes == [0, 0]
    assert (await get_spec(db, spec_id)).version == 1 + 2 * 40
