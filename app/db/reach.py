"""Whether the database can be written, by writing to it and taking that back."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from app.db.engine import Database
from app.db.processes import record_beat


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
