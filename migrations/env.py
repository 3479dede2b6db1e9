"""alembic's entry. `app.db.migrate` hands in a connection that is inside a transaction with foreign keys off;
the `alembic` command (developers, new steps) gets one made from the settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Literal

from alembic import context
from alembic.operations.ops import MigrationScript
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, types

from app.db.migrate import migration_transaction
from app.db.models import Base
from app.db.types import UtcTime
from app.settings import load_settings


def render_type(kind: str, item: Any, _autogenerate: object) -> str | Literal[False]:
    """Types of ours by the names that script.py.mako spells out, so that a step does not depend on later code."""
    if kind == "type" and isinstance(item, UtcTime):
        return "TIME"
    if kind == "type" and isinstance(item, types.JSON):
        return "JSON"
    if kind == "type" and isinstance(item, types.Enum):
        values = ", ".join(repr(value) for value in item.enums)
        return f"sa.Enum({values}, name={item.name!r}, native_enum=False, create_constraint=True, length={item.length})"
    return False


def name_revision(
    _context: MigrationContext, _revision: str | Iterable[str | None], directives: list[MigrationScript]
) -> None:
    """A revision's id is its time, so that the files, the table and the backups sort alike."""
    for script in directives:
        script.rev_id = f"{datetime.now(UTC):%Y%m%d_%H%M}"


def run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_as_batch=connection.dialect.name == "sqlite",
        compare_type=True,
        render_item=render_type,
        process_revision_directives=name_revision,
        transaction_per_migration=False,
    )
    with context.begin_transaction():
        context.run_migrations()


async def run_with_settings() -> None:
    async with migration_transaction(load_settings().database) as connection:
        await connection.run_sync(run)


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    asyncio.run(run_with_settings())
