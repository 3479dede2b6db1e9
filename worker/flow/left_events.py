"""Events that an ended sandbox had written down and the app has not heard of, handed in for it.

The files are a stranger's: whatever is no event, or too long to be one of ours, is skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import ValidationError

from sandbox_payload.wire import MAX_EVENTS_BYTES, Event
from worker.flow.on_behalf import OnBehalf

BATCH_BYTES = 500_000
BATCH_EVENTS = 200
_MAX_LINE_BYTES = MAX_EVENTS_BYTES - 100
"""With what a batch has around its events, still a body that the app takes."""


async def hand_in_events(app: OnBehalf, files: Iterable[Path], after: int) -> None:
    """Those numbered above `after`, in pieces; what the app has already is no new event there. A piece that it refuses is
    passed over.
    """
    batches = batch_events(files, after)
    while (batch := await asyncio.to_thread(next, batches, None)) is not None:
        await app.post_events(b'{"events":[' + b",".join(batch) + b"]}")


def batch_events(files: Iterable[Path], after: int) -> Iterator[list[bytes]]:
    """Batches of events as their lines stand in the files."""
    batch: list[bytes] = []
    size = 0
    for line in _lines(files):
        if not _is_event_after(line, after):
            continue
        if batch and (size + len(line) > BATCH_BYTES or len(batch) == BATCH_EVENTS):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line) + 1
    if batch:
        yield batch


def _lines(files: Iterable[Path]) -> Iterator[bytes]:
    """Whole ones without their ends, of each file until its first half one."""
    for path in files:
        with path.open("rb") as file:
            inside = False
            while piece := file.readline(_MAX_LINE_BYTES):
                ended = piece.endswith(b"\n")
                if ended and not inside:
                    yield piece.rstrip()
                inside = not ended


def _is_event_after(line: bytes, after: int) -> bool:
    try:
        return Event.model_validate_json(line).seq > after
    except ValidationError:
        return False
