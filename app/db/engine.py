"""Engines and transactions for both databases (measured: facts on SQLAlchemy, SQLite and PostgreSQL).

SQLite: WAL, synchronous=FULL, `BEGIN IMMEDIATE` for writers and one writer at a time per process, since a deferred
BEGIN that later writes fails at once with "database is locked". PostgreSQL: plain transactions; every state change is
a conditional UPDATE, because both databases lose updates at their defaults.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session as PlainSession

from app.db.postgres import create_postgres_engine
from app.db.sqlite import SqliteConnection

__all__ = ["Database", "PlainSession"]

BUSY_TIMEOUT_MS = 5000
_READ_ONLY = "issuewright_read_only"
_SQLITE_ARGUMENTS: dict[str, Any] = {"isolation_level": None, "timeout": BUSY_TIMEOUT_MS / 1000}

Result = TypeVar("Result")


class Database:
    """One engine and the two ways to use it: `read()` and `write()`, each one short transaction."""

    def __init__(self, url: str, engine: AsyncEngine | None = None) -> None:
        """`engine`: one that another database of the same `url` had, with its open connections; else a new one."""
        self.url = url
        self.dialect = make_url(url).get_backend_name()
        self.engine = engine or _create_engine(url)
        options: dict[str, Any] = {_READ_ONLY: True}
        if self.dialect != "sqlite":
            options["isolation_level"] = "REPEATABLE READ"  # each statement of its default sees what is new
        self._reading = self.engine.execution_options(**options)  # the same connections
        alone = {} if self.dialect == "sqlite" else {"isolation_level": "AUTOCOMMIT"}
        self._looking = self._reading.execution_options(**alone)
        self._writer = asyncio.Lock()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncSession]:
        """A consistent snapshot. Nothing written here is kept."""
        async with AsyncSession(self._reading, expire_on_commit=False) as session:
            yield session

    @asynccontextmanager
    async def look(self) -> AsyncIterator[AsyncSession]:
        """As `read`, for one statement, or for some that need not agree with each other: on PostgreSQL two questions
        less to the server, which are most of what a small read takes.
        """
        async with AsyncSession(self._looking, expire_on_commit=False) as session:
            yield session

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncSession]:
        """Commits on a clean exit, rolls back on any exception. Keep it short and never await the network inside."""
        if self.dialect == "sqlite":
            async with (
                self._writer,
                AsyncSession(self.engine, expire_on_commit=False) as session,
                session.begin(),
            ):
                yield session
        else:
            async with AsyncSession(self.engine, expire_on_commit=False) as session, session.begin():
                yield session

    async def transact(self, work: Callable[[Connection], Result]) -> Result:
        """`work` as one write transaction: commits when it returns, rolls back when it raises.

        For the few places where the cost counts: on SQLite all of it is one hop to a thread, where a session takes one
        for each statement (measured: 16 deliveries in one commit cost half).
        """
        if self.dialect == "sqlite":
            async with self._writer:
                return await asyncio.to_thread(self._transact, work)
        async with self.engine.begin() as connection:
            return await connection.run_sync(work)

    async def execute_alone(
        self, statement: str, values: Callable[[], Sequence[object]]
    ) -> Sequence[Sequence[Any]]:
        """Runs one statement of the driver's own, which is a transaction by itself, and returns what its RETURNING says.
        `values` makes its values, in a thread.

        For the one place that is as busy as all others together: a thread that asks for the interpreter less often is
        held up less often by a busy loop, and what the library does around a statement takes longer than SQLite
        (measured: 0.3 ms). Raises SQLAlchemyError.
        """
        if self.dialect == "sqlite":
            async with self._writer:
                return await asyncio.to_thread(self._execute_alone, statement, values)
        made = tuple(await asyncio.to_thread(values))
        async with self.engine.connect() as connection:
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            return (await connection.exec_driver_sql(statement, made)).all()

    def _execute_alone(
        self, statement: str, values: Callable[[], Sequence[object]]
    ) -> Sequence[Sequence[Any]]:
        try:
            with closing(self._plain_engine.raw_connection()) as lent:
                driver = cast("sqlite3.Connection", lent.driver_connection)
                return driver.execute(statement, values()).fetchall()
        except sqlite3.Error as error:  # also of a file that can't be opened
            raise DBAPIError.instance(None, None, error, sqlite3.Error) from error

    async def transact_rows(self, work: Callable[[PlainSession], Result]) -> Result:
        """As `transact`, for work on mapped rows; what it has changed is written when it returns."""

        def within(connection: Connection) -> Result:
            with PlainSession(connection, expire_on_commit=False) as session:
                found = work(session)
                session.flush()
            return found

        return await self.transact(within)

    def _transact(self, work: Callable[[Connection], Result]) -> Result:
        with self._plain_engine.begin() as connection:
            return work(connection)

    @cached_property
    def _plain_engine(self) -> Engine:
        url = make_url(self.url).set(drivername="sqlite")
        return _listening(
            create_engine(url, connect_args={**_SQLITE_ARGUMENTS, "check_same_thread": False}), _begin_now
        )

    async def ping(self) -> bool:
        async with self.read() as session:
            await session.execute(text("SELECT 1"))
        return True

    async def aclose(self) -> None:
        await self.engine.dispose()
        if "_plain_engine" in self.__dict__:  # made at its first use
            self._plain_engine.dispose()


def _create_engine(url: str) -> AsyncEngine:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        if parsed.database and parsed.database != ":memory:":
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        engine = create_async_engine(
            url,
            pool_size=8,
            max_overflow=8,
            pool_use_lifo=True,
            connect_args={**_SQLITE_ARGUMENTS, "async_creator_fn": SqliteConnection},
        )
        _listening(engine.sync_engine, _begin_later)
        return engine
    return create_postgres_engine(url)


def _listening(engine: Engine, begin: Callable[[Any], None]) -> Engine:
    event.listen(engine, "connect", _set_pragmas)
    event.listen(engine, "begin", begin)
    return engine


def _set_pragmas(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        f"busy_timeout={BUSY_TIMEOUT_MS}",
        "foreign_keys=ON",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_now(connection: Any) -> None:
    connection.exec_driver_sql(_beginning(connection))


def _begin_later(connection: Any) -> None:
    connection.connection.driver_connection.begin_later(_beginning(connection))


def _beginning(connection: Any) -> str:
    read_only = connection.get_execution_options().get(_READ_ONLY, False)
    return "BEGIN" if read_only else "BEGIN IMMEDIATE"
