"""Events and transcripts of work that ended long ago: first to a file, whole and safe on the disk, then out of the
database.

A look takes a few sandboxes; each part of it may be cut anywhere and is done again by the next one. An archive is
written under another name and renamed when it is whole, and only after that is it noted; only what is noted is removed.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any

import structlog

from app.db.archive import (
    find_transcript,
    list_past_keeping,
    read_transcript,
    record_archived,
    record_events_removed,
    remove_archived,
)
from app.db.event_texts import list_texts
from app.db.events import EventFilter, list_events
from app.db.guardian import list_interventions_between
from app.db.locks import claim_lock, passing_owner
from app.db.models import Event, Intervention, Sandbox
from app.domain.ids import SandboxId
from app.observability.crashpoints import crashpoint
from worker.parts import Parts

log = structlog.get_logger("worker.retention")

EVERY = timedelta(minutes=10)
AT_ONCE = 20
"""Sandboxes that one look deals with."""
PAGE = 500
REMOVED_AT_ONCE = 2_000
"""Rows that one commit removes, so that it holds up nobody."""
MAX_TEXTS = 50_000_000
"""Bytes of whole texts beside one page of events: more than a page can have."""


class Retention:
    """`look()` may be called at any time; one worker at a time gets its turn, once in `EVERY`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def look(self) -> int:
        """Archive and remove what is due. Returns how many sandboxes were dealt with. Raises OSError when the archive
        can't be written; then nothing is removed.
        """
        parts = self._parts
        if parts.keep_events is None or not await self._is_my_turn():
            return 0
        before = parts.clock() - parts.keep_events
        async with parts.db.read() as session:
            rows = await list_past_keeping(session, before, AT_ONCE)
        for row in rows:
            await self._archive(row)
            await self._remove(row, before)
            log.info("sandbox.archived", sandbox_id=row.id, spec_id=row.spec_id)
        return len(rows)

    async def _is_my_turn(self) -> bool:
        now = self._parts.clock()
        async with self._parts.db.write() as session:
            return await claim_lock(
                session, "retention", passing_owner(self._parts.worker_id, now), now, EVERY
            )

    async def _archive(self, row: Sandbox) -> None:
        if row.archived_at is not None:
            return
        directory = archive_directory(self._parts.home, row.created_at)
        await asyncio.to_thread(_make_private, directory)
        await self._write_transcript(row, directory / f"{row.id}.transcript.tar.gz")
        await self._write_events(row, directory / f"{row.id}.jsonl.gz")
        crashpoint("archive.before")
        async with self._parts.db.write() as session:
            await record_archived(session, row.id, self._parts.clock())
        crashpoint("archive.after")

    async def _write_events(self, row: Sandbox, path: Path) -> None:
        unfinished = path.with_name(path.name + ".part")
        after = 0
        with await asyncio.to_thread(_open_private, unfinished) as file:
            with gzip.open(file, "wb") as packed:
                await asyncio.to_thread(packed.write, _line(_sandbox_fields(row)))
                while True:
                    lines, last_seq = await self._page(row.id, after)
                    await asyncio.to_thread(packed.write, b"".join(lines))
                    if last_seq is None:
                        break
                    after = last_seq
            await asyncio.to_thread(_sync, file)
        await asyncio.to_thread(_put_in_place, unfinished, path)

    async def _page(self, sandbox_id: str, after: int) -> tuple[list[bytes], int | None]:
        """The lines of the next events, each intervention before the one it stands before; the last one's number, None
        when no more follow.
        """
        async with self._parts.db.read() as session:
            events = await list_events(session, SandboxId(sandbox_id), EventFilter(after=after), PAGE)
            texts = await list_texts(session, sandbox_id, [one.seq for one in events], MAX_TEXTS)
            last_seq = None if len(events) < PAGE else events[-1].seq
            done = await list_interventions_between(session, sandbox_id, after, last_seq)
        placed = [(one.at_seq, 0, _intervention_line(one)) for one in done]
        placed += [(one.seq, 1, _event_line(one, texts)) for one in events]
        return [line for _, _, line in sorted(placed, key=lambda entry: entry[:2])], last_seq

    async def _write_transcript(self, row: Sandbox, path: Path) -> None:
        async with self._parts.db.read() as session:
            transcript = await find_transcript(session, row.id)
        if transcript is None:
            return
        unfinished = path.with_name(path.name + ".part")
        with await asyncio.to_thread(_open_private, unfinished) as file:
            async for piece in read_transcript(self._parts.db, transcript.id):
                await asyncio.to_thread(file.write, piece)
            await asyncio.to_thread(_sync, file)
        await asyncio.to_thread(_put_in_place, unfinished, path)

    async def _remove(self, row: Sandbox, before: datetime) -> None:
        done = False
        while not done:
            crashpoint("forget_events.before")
            async with self._parts.db.write() as session:
                done = await remove_archived(session, SandboxId(row.id), before, REMOVED_AT_ONCE)
                if done:
                    await record_events_removed(session, row.id, before, self._parts.clock())
            crashpoint("forget_events.after")


def archive_directory(home: Path, created_at: datetime) -> Path:
    """Where the archives of the sandboxes of that month stand."""
    return home / "archive" / f"{created_at:%Y-%m}"


def _sandbox_fields(row: Sandbox) -> dict[str, Any]:
    hidden = {"token_hash"}
    return {
        "sandbox": {
            one.name: getattr(row, one.name) for one in row.__table__.columns if one.name not in hidden
        }
    }


def _event_line(event: Event, texts: dict[int, dict[str, str]]) -> bytes:
    data = {**event.event_data, **texts.get(event.seq, {})}
    return _line(
        {
            "seq": event.seq, "event_type": event.event_type, "event_data": data, "source": event.source,
            "timestamp": event.timestamp, "received_at": event.received_at,
        }
    )  # fmt: skip


def _intervention_line(row: Intervention) -> bytes:
    """As the operator API shows it among events."""
    return _line(
        {
            "seq": row.at_seq, "event_type": row.event_type, "event_data": row.event_data, "source": "system",
            "timestamp": row.created_at, "received_at": row.created_at,
        }
    )  # fmt: skip


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, default=_as_text).encode() + b"\n"


def _as_text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _make_private(directory: Path) -> None:
    directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)


def _open_private(path: Path) -> IO[bytes]:
    """What a killed worker left there is written over."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _put_in_place(unfinished: Path, path: Path) -> None:
    """In one step, and for good: the directory's entry is on the disk, too."""
    unfinished.replace(path)
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
