"""A database with the newest schema: SQLite always, PostgreSQL where a server is named."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from app.db.engine import Database
from app.db.models import Base


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.needs_postgres)])
async def db(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    if request.param == "sqlite":
        database = Database(f"sqlite+aiosqlite:///{tmp_path / 'test.db'}")
        async with database.engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        yield database
        await database.aclose()
        return
    url = os.environ["ISSUEWRIGHT_TEST_POSTGRES_URL"]
    name = f"iw_{uuid.uuid4().hex[:12]}"
    admin = Database(url)
    async with admin.engine.connect() as plain:
        connection = await plain.execution_options(isolation_level="AUTOCOMMIT")
        await connection.execute(text(f"CREATE DATABASE {name}"))
    database = Database(url.rsplit("/", 1)[0] + f"/{name}")
    async with database.engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    yield database
    await database.aclose()
    async with admin.engine.connect() as plain:
        connection = await plain.execution_options(isolation_level="AUTOCOMMIT")
        await connection.execute(text(f"DROP DATABASE {name}"))
    await admin.aclose()
