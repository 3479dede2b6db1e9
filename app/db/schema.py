"""How a database's schema compares with this release's, without the migration library: every process asks at its start,
and alembic takes a second to load.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, NullPool, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from app.domain.errors import IssuewrightError, SettingsError

SchemaState = Literal["current", "older", "newer", "empty", "foreign"]
"""`foreign`: another program's, whose tables have names of ours, or whose steps alembic counts there as well."""
STEPS = Path(__file__).resolve().parents[2] / "migrations"
"""Installed beside `app`."""
_REVISION = re.compile(r'^revision = "([^"]+)"$', re.MULTILINE)
_BEFORE = re.compile(r'^down_revision = (?:"([^"]+)"|None)$', re.MULTILINE)
_TABLE = re.compile(r'op\.create_table\(\s*"([^"]+)"')
_OURS = re.compile(r"[0-9]{8}_[0-9]{4}")
"""A revision of any release (`migrations/env.py` names them)."""


def known_revisions() -> list[str]:
    """The steps of this release, oldest first. Read as text: they are one line of steps, each naming the one before it
    (a test compares this with what alembic makes of them).
    """
    after: dict[str | None, str] = {}
    for path in (STEPS / "versions").glob("*.py"):
        source = path.read_text()
        named, before = _REVISION.search(source), _BEFORE.search(source)
        if named and before:
            after[before[1]] = named[1]
    found: list[str] = []
    while (following := after.get(found[-1] if found else None)) is not None:
        found.append(following)
    return found


def _known_tables() -> set[str]:
    return {name for path in (STEPS / "versions").glob("*.py") for name in _TABLE.findall(path.read_text())}


async def schema_state(url: str) -> SchemaState:
    """Changes nothing, makes no file. Raises SQLAlchemyError or OSError when the database can't be asked."""
    path = sqlite_path(url)
    if path is not None and not path.exists():
        return "empty"
    at, names = await (asyncio.to_thread(_ask_sqlite, path) if path is not None else _ask_server(url))
    known = known_revisions()
    if at is None:
        return "foreign" if names & _known_tables() else "empty"
    if at == known[-1]:
        return "current"
    if at in known:
        return "older"
    return "newer" if _OURS.fullmatch(at) else "foreign"


class Unreachable(IssuewrightError):
    """The database does not answer now; the same settings may work later, so a supervisor should try again."""


_NEVER_BY_ITSELF = (
    *("28000", "28P01", "3D000", "42501"),
    *("SQLITE_CANTOPEN", "SQLITE_NOTADB", "SQLITE_READONLY"),
)
"""PostgreSQL's codes for a user, a password and a database that there is not, and for a right that is missing; how
SQLite's names for a wrong or protected file or directory begin.
"""


async def ask_state(url: str) -> SchemaState:
    """As `schema_state`, in words for whoever runs a command: raises SettingsError when the setting must be changed,
    Unreachable when the database may be back.
    """
    try:
        state = await schema_state(url)
    except (TypeError, ValueError, ArgumentError) as error:  # from the calls that hand them to the driver
        raise SettingsError(
            f"{unusable(url, error)}; after the ? stand options of asyncpg, as in ?ssl=require"
        ) from None
    except (SQLAlchemyError, OSError) as error:
        raise explained(url, error) from None
    if state == "foreign":
        raise foreign_schema(url)
    return state


def explained(url: str, error: SQLAlchemyError | OSError) -> SettingsError | Unreachable:
    """What a command says of a database that refused."""
    cause = getattr(error, "orig", None) or error
    code = getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None)
    # The driver's own word on an option that it knows, with a value that it does not, is a ValueError too.
    if str(code).startswith(_NEVER_BY_ITSELF) or isinstance(cause.__cause__, ValueError):
        return SettingsError(f"{unusable(url, cause)}; set it to one that can")
    return Unreachable(f"{unusable(url, cause)}; see that it runs and is right")


def foreign_schema(url: str) -> SettingsError:
    return SettingsError(
        f"DATABASE_URL: {shown_url(url)} belongs to another program, whose tables are in the way; set it to a database "
        "of issuewright's own"
    )


def unusable(url: str, cause: BaseException) -> str:
    """The beginning of a line about a database that can't be used."""
    reason = (str(cause) or type(cause).__name__).splitlines()[0]
    return f"DATABASE_URL: {shown_url(url)} can't be used ({reason})"


async def require_current_schema(url: str) -> None:
    """For processes that serve. Raises SettingsError saying what to run or to set, Unreachable when there is no answer."""
    state = await ask_state(url)
    if state in {"older", "empty"}:
        raise SettingsError(
            "DATABASE_URL: the database is not at this release's schema; run `issuewright migrate`"
        )
    if state == "newer":
        raise newer_schema()


def newer_schema() -> SettingsError:
    return SettingsError(
        "DATABASE_URL: the database was made by a newer release of issuewright; install that release, or restore the "
        "backup beside the database"
    )


def shown_url(url: str) -> str:
    """Without the password."""
    return make_url(url).render_as_string(hide_password=True)


def sqlite_path(url: str) -> Path | None:
    """The file of an SQLite database, None for another one. Raises SettingsError for one without a file."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return None
    if not parsed.database or parsed.database == ":memory:":
        raise SettingsError("DATABASE_URL: SQLite needs a file")
    if parsed.host or parsed.query or "\0" in parsed.database:
        raise SettingsError(
            "DATABASE_URL: SQLite takes a path and nothing else, as in sqlite+aiosqlite:////var/lib/issuewright/x.db"
        )
    return Path(parsed.database)


def schema_engine(url: str) -> AsyncEngine:
    """For looking at the schema and for changing it: on SQLite foreign keys are off before a transaction begins."""
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


def _ask_sqlite(path: Path) -> tuple[str | None, set[str]]:
    """The revision and the names of all there is. By Python's own driver: the asynchronous one prints a traceback when
    a file can't be opened.
    """
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=30)
        ) as connection:
            names = {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            if "alembic_version" not in names:
                return None, names
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.Error as error:
        raise DatabaseError(None, None, error) from error
    return (str(row[0]) if row is not None else None), names


async def _ask_server(url: str) -> tuple[str | None, set[str]]:
    engine = schema_engine(url)
    try:
        async with engine.connect() as connection:
            names = set(await connection.scalars(_NAMES))
            if "alembic_version" not in names:
                return None, names
            return await connection.scalar(text("SELECT version_num FROM alembic_version")), names
    finally:
        await engine.dispose()


_NAMES = text("SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace")


def _set_pragmas(connection: Any, _record: Any) -> None:
    with closing(connection.cursor()) as cursor:
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=OFF"):
            cursor.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
