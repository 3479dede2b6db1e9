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

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db import schema
from app.db.schema import ask_state, explained, newer_schema, schema_engine, shown_url, sqlite_path, unusable
from app.domain.errors import IssuewrightError, SettingsError

LOCK_TIMEOUT_S = 60
_ADVISORY_LOCK = 0x1557_3E17
"""Any number, as long as every release uses the same one."""


class MigrationFailed(IssuewrightError):
    """The database is as it was before; the text says why."""


async def migrate(url: str) -> list[str]:
    """Upgrade to the newest schema; returns the revisions applied, oldest first, [] when there was nothing to do.

    Safe to call at the same time from several processes: the second waits and finds nothing to do. Killed at any
    moment it leaves the old schema. Raises SettingsError for a database that can't be used or is newer than this
    release, Unreachable when it does not answer now, MigrationFailed when a check fails.
    """
    path = sqlite_path(url)
    if path is None:
        await ask_state(url)
        return await _upgrade(url)
    lock = path.with_name(path.name + ".migrate-lock")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock.touch(mode=0o600)
    except OSError as error:
        raise SettingsError(f"{unusable(url, error)}; give it a directory that can be written") from None
    async with _file_lock(lock):
        if await ask_state(url) == "older":
            await asyncio.to_thread(_back_up, path)
        return await _upgrade(url)


@asynccontextmanager
async def migration_transaction(url: str) -> AsyncIterator[AsyncConnection]:
    """One transaction in which the schema may be changed; committed only when no foreign key is broken."""
    engine = schema_engine(url)
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
    try:
        async with migration_transaction(url) as connection:
            return await connection.run_sync(_upgrade_on)
    except (SQLAlchemyError, OSError) as error:
        told = explained(url, error)
        if isinstance(told, SettingsError):
            raise told from None
        reason = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise MigrationFailed(
            f"DATABASE_URL: {shown_url(url)} could not be brought to the newest schema, and nothing was changed: {reason}"
        ) from None


def _upgrade_on(connection: Connection) -> list[str]:
    config = _config()
    script = ScriptDirectory.from_config(config)
    before = MigrationContext.configure(connection).get_current_revision()
    known = [one.revision for one in script.walk_revisions()][::-1]
    if before is not None and before not in known:
        raise newer_schema()
    pending = known[known.index(before) + 1 :] if before else known
    if pending:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return pending


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(schema.STEPS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


# ------------------------------------------------------------ SQLite


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
    unfinished = path.with_name(f"{path.name}.backup.part")
    try:
        with closing(sqlite3.connect(path)) as connection:
            (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
            unfinished.unlink(missing_ok=True)
            connection.execute("VACUUM INTO ?", (str(unfinished),))
        unfinished.chmod(0o600)
        unfinished.replace(path.with_name(f"{path.name}.schema-{revision}.backup"))
    except (sqlite3.Error, OSError) as error:
        unfinished.unlink(missing_ok=True)
        raise MigrationFailed(
            f"no copy of {path} could be made before its schema changes, so nothing was changed: {error}"
        ) from None


# ------------------------------------------------------------ PostgreSQL


async def _lock_postgres(connection: AsyncConnection) -> None:
    # The wait for another migrator may be long; the wait for a table lock may not (others queue behind it).
    await connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT_S}s'"))
    await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
    await connection.execute(text("SET LOCAL lock_timeout = '5s'"))
