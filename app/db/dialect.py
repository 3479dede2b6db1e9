"""`INSERT … ON CONFLICT DO NOTHING` on whichever database a session speaks to."""

from __future__ import annotations

from typing import Any

from sqlalchemy.dialects.postgresql import Insert as PostgresInsert, insert as postgres_insert
from sqlalchemy.dialects.sqlite import Insert as SqliteInsert, insert as sqlite_insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session


def insert_for(session: AsyncSession | Session, table: Any) -> PostgresInsert | SqliteInsert:
    """The dialect's own insert, which knows `on_conflict_do_nothing` and `returning`."""
    name = session.get_bind().dialect.name
    return postgres_insert(table) if name == "postgresql" else sqlite_insert(table)
