"""The tables that the migrations make are the tables that the models describe."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import MetaData, create_engine

from app.db.migrate import migrate
from app.db.models import Base
from tests.checks.tree import Finding, Tree


def find_schema_drift(_tree: Tree, models: MetaData = Base.metadata) -> Iterator[Finding]:
    """Runs every migration on an empty SQLite file and compares."""
    with tempfile.TemporaryDirectory(prefix="iw-") as directory:
        path = Path(directory) / "schema.db"
        asyncio.run(migrate(f"sqlite+aiosqlite:///{path}"))
        engine = create_engine(f"sqlite:///{path}")
        try:
            with engine.connect() as connection:
                context = MigrationContext.configure(connection, opts={"compare_type": True})
                differences = list(compare_metadata(context, models))
        finally:
            engine.dispose()
    for difference in differences:
        yield Finding(
            "migrations/versions", 0, f"the models say otherwise, write a migration: {_describe(difference)}"
        )


def _describe(difference: object) -> str:
    """alembic's tuples name an operation and its objects; a changed column is a list of such tuples."""
    if isinstance(difference, list):
        return "; ".join(map(_describe, difference))
    if isinstance(difference, tuple):
        return " ".join(str(getattr(part, "name", None) or part) for part in difference if part is not None)
    return str(difference)
