"""Whether the database can be written, by writing to it and taking that back."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from sqlalchemy.exc import SQLAlchemyError

from app.db.engine import Database
from app.db.processes import record_beat
from app.db.schema import explained, sqlite_path
from app.domain.errors import SettingsError


class _TakenBack(Exception):
    """Not an error: how the write is rolled back."""


async def try_write(url: str) -> None:
    """Raises SQLAlchemyError or OSError: no server, no right, read-only, locked for five seconds, disk full."""
    database = Database(url)
    try:
        async with database.write() as session:
            name = f"doctor-{secrets.token_hex(8)}"
            await record_beat(session, name, "doctor", "", 0, "", datetime.now(UTC))
            raise _TakenBack
    except _TakenBack:
        return
    finally:
        await database.aclose()


async def require_writable(url: str) -> None:
    """For processes that serve, of a database at this release's schema: raises SettingsError when it never can be
    written, Unreachable when a server refuses just now (as one that only follows another does).

    A file that is locked, or whose disk is full, is no reason not to start: what needs neither goes on, the rest waits.
    """
    try:
        await try_write(url)
    except (SQLAlchemyError, OSError) as error:
        told = explained(url, error)
        if isinstance(told, SettingsError) or sqlite_path(url) is None:
            raise told from None
