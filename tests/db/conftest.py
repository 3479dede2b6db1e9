from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from app.db.engine import Database


@pytest.fixture
async def db(database_url: str) -> AsyncIterator[Database]:
    """A database with the newest schema."""
    database = Database(database_url)
    yield database
    await database.aclose()
