"""Whole texts of events whose own copy was cut, compressed."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from app.db.dialect import insert_for
from app.db.models import EventText

_LEVEL = 3
"""Quick: a diff of a megabyte must not hold up others."""


def compress(text: str) -> bytes:
    return zlib.compress(text.encode(), _LEVEL)


def record_texts(session: Session, sandbox_id: str, texts: Mapping[int, Mapping[str, bytes]]) -> None:
    """By number of the event and name of the field, compressed. What is there already stays."""
    rows = [
        {"sandbox_id": sandbox_id, "seq": seq, "name": name, "data": data}
        for seq, fields in texts.items()
        for name, data in fields.items()
    ]
    if rows:
        session.execute(insert_for(session, EventText).values(rows).on_conflict_do_nothing())


async def list_texts(
    session: AsyncSession, sandbox_id: str, seqs: Sequence[int], max_bytes: int
) -> dict[int, dict[str, str]]:
    """The whole texts of these events, oldest first, until together they are longer than `max_bytes`."""
    rows = await session.stream_scalars(
        select(EventText)
        .where(EventText.sandbox_id == sandbox_id, EventText.seq.in_(seqs))
        .order_by(EventText.seq, EventText.name)
    )
    found: dict[int, dict[str, str]] = {}
    async for row in rows:
        text = zlib.decompress(row.data).decode()
        max_bytes -= len(text)
        if max_bytes < 0:
            break
        found.setdefault(row.seq, {})[row.name] = text
    await rows.close()
    return found
