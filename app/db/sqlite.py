"""The connection to SQLite under SQLAlchemy's aiosqlite dialect, with one hop to its thread for each statement.

aiosqlite hands every call of the driver to the connection's thread and back: a SELECT costs four such hops (cursor,
execute, fetch, close), a transaction of one statement nine. Each is a wake-up of two threads that share one
interpreter lock; together they cost more than SQLite itself.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Self

import aiosqlite

__all__ = ["SqliteConnection"]

_FIRST_ROWS = 256
"""Rows read together with their statement; a list is seldom longer, and a stream of long texts is not held whole."""


class SqliteConnection(aiosqlite.Connection):
    """Begins with the first statement, and does nothing for the end of a transaction that had none.

    Gives its locks back when it is closed, whatever was cancelled on the way: aiosqlite 0.22 forgets the open handle
    when `close()` and `stop()` meet, as they do when a task is cancelled twice at once: a transaction's lock then
    outlives its task, and nobody else can write.
    """

    _begin: str | None = None
    _reading = False
    _used = False
    _ended: asyncio.Future[Any] | None = None

    def __init__(self, database: str, **options: Any) -> None:
        super().__init__(lambda: sqlite3.connect(database, **options), iter_chunk_size=64)
        self._thread.daemon = True  # as SQLAlchemy makes its own: an open connection keeps no process alive

    def begin_later(self, statement: str) -> None:
        """`statement`, a BEGIN, is run together with the next statement; its errors are raised there."""
        self._begin, self._reading = statement, statement == "BEGIN"

    def cursor(self) -> _Cursor:  # type: ignore[override]  # what SQLAlchemy asks for: entered by `async with`
        return _Cursor(self)

    async def use(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Run `work` within the transaction, in the connection's thread."""
        begin, self._begin, self._used = self._begin, None, True

        def within() -> None:
            if begin is not None:
                self._conn.execute(begin).close()
            work(self._conn)

        await self._execute(within)  # type: ignore[no-untyped-call]

    async def commit(self) -> None:
        if self._used:
            await super().commit()
        self._begin, self._used = None, False

    async def rollback(self) -> None:
        if self._used and self._reading:
            # Nobody needs to wait for it: what follows is queued behind it.
            self._tx.put_nowait((None, self._conn.rollback))
        elif self._used:
            await super().rollback()
        self._begin, self._used = None, False

    def stop(self) -> asyncio.Future[Any] | None:
        if self._running:
            if self._connection is not None:
                # SQLite keeps a closed connection's transaction as long as somebody refers to one of its cursors.
                self._tx.put_nowait((None, self._connection.rollback))
            self._ended = super().stop()
        return self._ended

    async def close(self) -> None:
        ended = self.stop()
        if ended is not None:
            await asyncio.shield(ended)


class _Cursor:
    """What SQLAlchemy needs of a cursor. The first rows come with the statement, in the same hop."""

    arraysize = 1

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection
        self._rows: deque[Any] = deque()
        self._open: sqlite3.Cursor | None = None
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None

    async def __aenter__(self) -> Self:
        return self

    async def execute(self, operation: str, parameters: Any = ()) -> Self:
        await self._connection.use(lambda plain: self._take(plain.execute(operation, parameters)))
        return self

    async def executemany(self, operation: str, parameters: Iterable[Any]) -> Self:
        await self._connection.use(lambda plain: self._take(plain.executemany(operation, parameters)))
        return self

    async def fetchone(self) -> Any:
        rows = await self.fetchmany(1)
        return rows[0] if rows else None

    async def fetchmany(self, size: int | None = None) -> list[Any]:
        wanted = size or self.arraysize
        if len(self._rows) < wanted:
            await self._read(max(wanted, _FIRST_ROWS))
        return [self._rows.popleft() for _ in range(min(wanted, len(self._rows)))]

    async def fetchall(self) -> list[Any]:
        await self._read(None)
        rows = list(self._rows)
        self._rows.clear()
        return rows

    async def close(self) -> None:
        self._rows.clear()
        cursor, self._open = self._open, None
        if cursor is not None:
            await self._connection.use(lambda _plain: cursor.close())

    async def _read(self, count: int | None) -> None:
        if (cursor := self._open) is not None:
            await self._connection.use(lambda _plain: self._take(cursor, count))

    def _take(self, cursor: sqlite3.Cursor, count: int | None = _FIRST_ROWS) -> None:
        """`count` rows more, None = all. A cursor with no more is closed at once: an open one keeps locks."""
        self.description = cursor.description
        rows: list[Any] = []
        if cursor.description:
            rows = cursor.fetchall() if count is None else cursor.fetchmany(count)
        self._rows.extend(rows)
        self.rowcount = cursor.rowcount  # with RETURNING it is right only after the last row
        self.lastrowid = cursor.lastrowid
        self._open = cursor if rows and len(rows) == count else None
        if self._open is None:
            cursor.close()
