"""Engines and transactions for both databases (measured: facts on SQLAlchemy, SQLite and PostgreSQL).

SQLite: WAL, synchronous=FULL, `BEGIN IMMEDIATE` for writers and one writer at a time per process, since a deferred
BEGIN that later writes fails at once with "database is locked". PostgreSQL: plain transactions; every state change is
a conditional UPDATE, because both databases lose updates at their defaults.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import event, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

BUSY_TIMEOUT_MS = 5000
_READ_ONLY = "issuewright_read_only"


class Database:
    """One engine and the two ways to use it: `read()` and `write()`, each one short transaction."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.dialect = make_url(url).get_backend_name()
        self.engine = _create_engine(url)
        self._writer = asyncio.Lock()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncSession]:
        """A consistent snapshot. Nothing written here is kept."""
        async with self.engine.connect() as plain:
            connection = await plain.execution_options(**{_READ_ONLY: True})
            async with AsyncSession(connection, expire_on_commit=False) as session:
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

    async def ping(self) -> bool:
        async with self.read() as session:
            await session.execute(text("SELECT 1"))
        return True

    async def aclose(self) -> None:
        await self.engine.dispose()


def _create_engine(url: str) -> AsyncEngine:
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        if parsed.database and parsed.database != ":memory:":
            Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
        engine = create_async_engine(
            url,
            pool_size=8,
            max_overflow=8,
            connect_args={"isolation_level": None, "timeout": BUSY_TIMEOUT_MS / 1000},
        )
        event.listen(engine.sync_engine, "connect", _set_pragmas)
        event.listen(engine.sync_engine, "begin", _begin)
        return engine
    return create_async_engine(
        url,
        pool_size=8,
        max_overflow=8,
        pool_pre_ping=True,
        pool_timeout=2,
        connect_args={
            "timeout": 2,
            "command_timeout": 30,
            "server_settings": {
                "statement_timeout": "30000",
                "lock_timeout": "5000",
                "application_name": "issuewright",
            },
        },
    )


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


def _begin(connection: Any) -> None:
    read_only = connection.get_execution_options().get(_READ_ONLY, False)
    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
