"""A database of any earlier release, with a row in every table: nothing is lost, and that release still works on it."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Table, column, inspect, select, table, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.types import JSON, Boolean, DateTime, Enum, Float, Integer, LargeBinary, Uuid

from app.db.migrate import _config, migrate, migration_transaction
from app.db.models import Base
from app.db.schema import schema_state
from app.db.types import PackedBytes, UtcTime

REVISIONS = [one.revision for one in ScriptDirectory.from_config(_config()).walk_revisions()][::-1]
T0 = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.needs_postgres)])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """An empty database."""
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path / 'old.db'}"
        return
    server, name = os.environ["ISSUEWRIGHT_TEST_POSTGRES_URL"], f"iw_{uuid.uuid4().hex[:12]}"
    engine = create_async_engine(server, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text(f"CREATE DATABASE {name}"))
    yield server.rsplit("/", 1)[0] + f"/{name}"
    async with engine.connect() as connection:
        await connection.execute(text(f"DROP DATABASE {name}"))
    await engine.dispose()


async def upgrade_to(url: str, revision: str) -> dict[str, list[str]]:
    """Makes the tables of that release; their columns."""

    def upgrade(connection: Connection) -> dict[str, list[str]]:
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        found = inspect(connection)
        names = set(found.get_table_names()) - {"alembic_version"}
        return {name: [str(one["name"]) for one in found.get_columns(name)] for name in names}

    async with migration_transaction(url) as connection:
        return await connection.run_sync(upgrade)


def some_value(of: Any, number: int) -> Any:
    """A value that fits the column; another one for each number."""
    kind = of.type
    if isinstance(kind, Enum):
        return kind.enums[0]
    if isinstance(kind, UtcTime | DateTime):
        return T0 + timedelta(seconds=number)
    if isinstance(kind, Uuid):
        return uuid.UUID(int=number)
    for types, value in (
        ((Boolean,), True), ((Integer,), number), ((Float,), number / 2), ((LargeBinary, PackedBytes), b"row %d" % number),
    ):  # fmt: skip
        if isinstance(kind, types):
            return value
    return {"row": number} if isinstance(kind, JSON) else f"r{number}"


def row_of(whole: Table, columns: list[str], number: int) -> dict[str, Any]:
    values = {}
    for name in columns:
        of = whole.c[name]
        parents = [key.column for key in of.foreign_keys]
        values[name] = some_value(parents[0] if parents else of, number)
    return values


def narrowed(whole: Table, columns: list[str]) -> Any:
    """The table as the earlier release knew it, without the defaults of later columns."""
    return table(whole.name, *(column(name, whole.c[name].type) for name in columns))


async def insert_rows(url: str, known: dict[str, list[str]], number: int) -> None:
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        for whole in Base.metadata.sorted_tables:
            if whole.name in known:
                columns = [name for name in known[whole.name] if name in whole.c]
                row = row_of(whole, columns, number)
                await connection.execute(narrowed(whole, columns).insert().values(row))
    await engine.dispose()


async def read_rows(url: str, known: dict[str, list[str]]) -> dict[str, list[Any]]:
    engine, found = create_async_engine(url), {}
    async with engine.connect() as connection:
        for whole in Base.metadata.sorted_tables:
            if whole.name in known:
                columns = narrowed(whole, [name for name in known[whole.name] if name in whole.c])
                found[whole.name] = [tuple(row) for row in await connection.execute(select(columns))]
    await engine.dispose()
    return found


@pytest.mark.parametrize("revision", REVISIONS)
async def test_rows_of_an_earlier_release_are_kept_and_that_release_can_go_on_writing(
    url: str, revision: str
) -> None:
    known = await upgrade_to(url, revision)
    assert {"spec", "delivery", "sandbox", "event"} <= set(known)
    await insert_rows(url, known, 1)
    before = await read_rows(url, known)
    assert all(len(rows) == 1 for rows in before.values())
    await migrate(url)
    assert await schema_state(url) == "current"
    assert await read_rows(url, known) == before
    await insert_rows(url, known, 2)
    assert all(len(rows) == 2 for rows in (await read_rows(url, known)).values())
