"""Brings the database to the newest schema, safely on both databases (measured facts on alembic).

SQLite: foreign keys are off before the transaction begins (a batch change of a parent table would otherwise delete its
children without a word) and checked before commit; the whole upgrade is one transaction of our own; one migrator at a
time by a file lock; a copy is made first. PostgreSQL: one transaction under an advisory lock, with timeouts.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, Literal

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, NullPool, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from app.domain.errors import IssuewrightError, SettingsError

SchemaState = Literal["current", "older", "newer", "empty"]
LOCK_TIMEOUT_S = 60
STEPS = Path(__file__).resolve().parents[2] / "migrations"
"""Installed beside `app`."""
_ADVISORY_LOCK = 0x1557_3E17
"""Any number, as long as every release uses the same one."""


class MigrationFailed(IssuewrightError):
    """The database is as it was before; the text says why."""


async def migrate(url: str) -> list[str]:
    """Upgrade to the newest schema; returns the revisions applied, oldest first, [] when there was nothing to do.

    Safe to call at the same time from several processes: the second waits and finds nothing to do. Killed at any
    moment it leaves the old schema. Raises SettingsError for a database newer than this release, MigrationFailed when
    a check fails.
    """
    path = _sqlite_path(url)
    if path is None:
        return await _upgrade(url)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with _file_lock(path.with_name(path.name + ".migrate-lock")):
        if await schema_state(url) == "older":
            await asyncio.to_thread(_back_up, path)
        return await _upgrade(url)


async def schema_state(url: str) -> SchemaState:
    """How the database's schema compares with this release's. Changes nothing, makes no file."""
    path = _sqlite_path(url)
    if path is not None and not path.exists():
        return "empty"
    engine = _engine(url)
    try:
        async with engine.connect() as connection:
            at = await connection.run_sync(
                lambda sync: MigrationContext.configure(sync).get_current_revision()
            )
    finally:
        await engine.dispose()
    script = ScriptDirectory.from_config(_config())
    if at is None:
        return "empty"
    if at == script.get_current_head():
        return "current"
    return "older" if at in {one.revision for one in script.walk_revisions()} else "newer"


async def require_current_schema(url: str) -> None:
    """For processes that serve. Raises SettingsError saying what to run."""
    state = await schema_state(url)
    if state in {"older", "empty"}:
        raise SettingsError(
            "DATABASE_URL: the database is not at this release's schema; run `issuewright migrate`"
        )
    if state == "newer":
        raise _newer()


@asynccontextmanager
async def migration_transaction(url: str) -> AsyncIterator[AsyncConnection]:
    """One transaction in which the schema may be changed; committed only when no foreign key is broken."""
    engine = _engine(url)
    try:
        async with engine.connect() as connection, connection.begin():
            if connection.dialect.name == "postgresql":
                await _lock_postgres(connection)
            yield connection
            if connection.dialect.name == "sqlite":
                broken = (await connection.execute(text("PRAGMA foreign_key_check"))).all()
                if broken:
                    tables = ", ".join(sorted({str(row[0]) for row in broken}))
                    raise MigrationFailed(
                        f"the migration would leave rows without their parents in: {tables}"
                    )
    finally:
        await engine.dispose()


async def _upgrade(url: str) -> list[str]:
    async with migration_transaction(url) as connection:
        return await connection.run_sync(_upgrade_on)


def _upgrade_on(connection: Connection) -> list[str]:
    config = _config()
    script = ScriptDirectory.from_config(config)
    before = MigrationContext.configure(connection).get_current_revision()
    known = [one.revision for one in script.walk_revisions()][::-1]
    if before is not None and before not in known:
        raise _newer()
    pending = known[known.index(before) + 1 :] if before else known
    if pending:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return pending


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(STEPS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _newer() -> SettingsError:
    return SettingsError(
        "DATABASE_URL: the database was made by a newer release of issuewright; install that release, or restore the "
        "backup beside the database"
    )


# ------------------------------------------------------------ SQLite


def _sqlite_path(url: str) -> Path | None:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return None
    if not parsed.database or parsed.database == ":memory:":
        raise SettingsError("DATABASE_URL: SQLite needs a file")
    return Path(parsed.database)


def _engine(url: str) -> AsyncEngine:
    if make_url(url).get_backend_name() != "sqlite":
        settings = {
            "statement_timeout": "600000",
            "lock_timeout": "5000",
            "application_name": "issuewright-migrate",
        }
        return create_async_engine(
            url, poolclass=NullPool, connect_args={"timeout": 5, "server_settings": settings}
        )
    engine = create_async_engine(
        url, poolclass=NullPool, connect_args={"isolation_level": None, "timeout": 30}
    )
    event.listen(engine.sync_engine, "connect", _set_pragmas)
    event.listen(engine.sync_engine, "begin", _begin)
    return engine


def _set_pragmas(connection: Any, _record: Any) -> None:
    with closing(connection.cursor()) as cursor:
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=OFF"):
            cursor.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


@asynccontextmanager
async def _file_lock(path: Path) -> AsyncIterator[None]:
    """Held by an open file, so a killed migrator frees it."""
    deadline = time.monotonic() + LOCK_TIMEOUT_S
    with _open_for_lock(path) as descriptor:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise MigrationFailed(
                        f"another process has been migrating for {LOCK_TIMEOUT_S} s"
                    ) from None
                await asyncio.sleep(0.05)
        yield


@contextmanager
def _open_for_lock(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _back_up(path: Path) -> None:
    """A consistent copy beside the database, named by the schema it has; written aside first, so it is whole or absent."""
    with closing(sqlite3.connect(path)) as connection:
        (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        target = path.with_name(f"{path.name}.schema-{revision}.backup")
        unfinished = target.with_name(target.name + ".part")
        unfinished.unlink(missing_ok=True)
        connection.execute("VACUUM INTO ?", (str(unfinished),))
    unfinished.chmod(0o600)
    unfinished.replace(target)


# ------------------------------------------------------------ PostgreSQL


async def _lock_postgres(connection: AsyncConnection) -> None:
    # The wait for another migrator may be long; the wait for a table lock may not (others queue behind it).
    await connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_S}s'"))
    await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
    await connection.execute(text("SET LOCAL lock_timeout = '5s'"))
