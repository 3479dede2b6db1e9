"""Every event on disk, numbered without gaps, until the app has stored it.

Append-only segments `<first seq>.jsonl`, one event per line; `acknowledged` holds the highest seq the app confirmed.
A line is synced before it is sent, so a number that the app has seen is never given out again after a crash.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from sandbox_payload.caps import event_json
from sandbox_payload.wire import EventType, utc_text

SEGMENT_BYTES = 4_000_000
LIMIT_BYTES = 200_000_000
_BULK = frozenset(
    {
        EventType.TOOL_USE,
        EventType.TOOL_COMPLETED,
        EventType.USER_TOOL_RESULT,
        EventType.SYSTEM_MESSAGE,
        EventType.ASSISTANT_MESSAGE,
        EventType.MESSAGE,
        EventType.HEARTBEAT,
        EventType.FILE_EDITED,
    }
)
"""What is counted instead of kept when the app has been away for so long that the spool is full."""


@dataclass(frozen=True)
class Line:
    """One stored event: its number and its JSON text without the line end."""

    seq: int
    raw: bytes


class Spool:
    """Safe to use from several threads; one directory belongs to one process at a time."""

    def __init__(self, directory: Path, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._directory = directory
        self._limit_bytes = limit_bytes
        self._more = threading.Condition()
        self._segments: list[tuple[int, Path]] = []
        self._sizes: dict[Path, int] = {}
        self._left_out: Counter[str] = Counter()
        self._hint: tuple[int, Path, int] | None = None
        self._unsynced = False
        directory.mkdir(parents=True, exist_ok=True)
        self._acknowledged = self._read_acknowledged()
        self._last_seq = max(self._recover(), self._acknowledged)
        self._file = self._open_segment()

    @property
    def last_seq(self) -> int:
        return self._last_seq

    @property
    def acknowledged(self) -> int:
        return self._acknowledged

    @property
    def depth(self) -> int:
        """Events the app has not confirmed yet."""
        return max(0, self._last_seq - self._acknowledged)

    def append(self, event_type: str, data: dict[str, Any], *, source: str = "agent") -> int | None:
        """Stores one event; its number, or None when it was only counted because the spool is full."""
        text = event_json(data)
        with self._more:
            if self._is_full_for(event_type, len(text)):
                self._left_out[event_type] += 1
                return None
            try:
                self._note_left_out(source)
                seq = self._write(event_type, text, source)
            except OSError:  # disk full: the run matters more than its report
                self._left_out[event_type] += 1
                return None
            self._more.notify_all()
            return seq

    def read_after(self, seq: int, *, max_bytes: int, max_events: int) -> list[Line]:
        """The next events after `seq`, at least one if there is any, synced to disk."""
        with self._more:
            self.sync()
            lines: list[Line] = []
            size = 0
            for line, place in self._walk(seq):
                if lines and (size + len(line.raw) > max_bytes or len(lines) >= max_events):
                    break
                lines.append(line)
                size += len(line.raw) + 1
                self._hint = (line.seq, *place)
            return lines

    def acknowledge(self, seq: int) -> None:
        """The app has stored everything up to `seq`; what only it held on to is deleted."""
        with self._more:
            if seq <= self._acknowledged:
                return
            self._acknowledged = min(seq, self._last_seq)
            with suppress(OSError):  # a full disk: after a restart the app says again what it has
                temporary = self._directory / "acknowledged.new"
                temporary.write_text(str(self._acknowledged))
                temporary.replace(self._directory / "acknowledged")
            while len(self._segments) > 1 and self._segments[1][0] <= self._acknowledged + 1:
                _, path = self._segments.pop(0)
                self._sizes.pop(path, None)
                path.unlink(missing_ok=True)
            self._more.notify_all()

    def wait_beyond(self, seq: int, timeout_s: float) -> bool:
        """Whether an event after `seq` exists, waiting up to `timeout_s` for one."""
        with self._more:
            return self._more.wait_for(lambda: self._last_seq > seq, timeout_s)

    def wait_empty(self, timeout_s: float) -> bool:
        """Whether the app has confirmed everything, waiting up to `timeout_s` for that."""
        with self._more:
            return self._more.wait_for(lambda: self.depth == 0, timeout_s)

    def sync(self) -> None:
        with self._more:
            if self._unsynced:
                self._file.flush()
                os.fsync(self._file.fileno())
                self._unsynced = False

    def close(self) -> None:
        with self._more:
            self.sync()
            self._file.close()

    def _note_left_out(self, source: str) -> None:
        if not self._left_out:
            return
        counts = dict(self._left_out)
        note = {
            "subtype": "events_left_out",
            "counts": counts,
            "reason": "the app was away and the spool full",
        }
        self._write(EventType.SYSTEM_MESSAGE, event_json(note), source)
        self._left_out.clear()

    def _is_full_for(self, event_type: str, size: int) -> bool:
        held = sum(self._sizes.values()) + size
        limit = self._limit_bytes if event_type in _BULK else self._limit_bytes * 5 // 4
        return held > limit

    def _write(self, event_type: str, data_json: str, source: str) -> int:
        seq = self._last_seq + 1
        path = self._segments[-1][1]
        if self._sizes[path] >= SEGMENT_BYTES:
            self.sync()
            self._file.close()
            path = self._add_segment(seq)
            self._file = path.open("ab")
        head = json.dumps(
            {"seq": seq, "event_type": event_type, "source": source, "timestamp": utc_text(datetime.now(UTC))}
        )
        raw = f'{head[:-1]},"event_data":{data_json}}}\n'.encode()
        start = self._sizes[path]
        try:
            self._file.write(raw)
            self._file.flush()
        except OSError:
            self._file.close()
            os.truncate(path, start)
            self._file = path.open("ab")
            raise
        self._sizes[path] = start + len(raw)
        self._last_seq = seq
        self._unsynced = True
        return seq

    def _walk(self, after: int) -> Iterator[tuple[Line, tuple[Path, int]]]:
        """Yields (line, (segment, offset of the next line)) for every event later than `after`."""
        paths = [path for _, path in self._segments]
        offset = 0
        if self._hint and self._hint[0] == after and self._hint[1] in paths:
            _, start, offset = self._hint
            paths = paths[paths.index(start) :]
        else:
            later = [index for index, (first, _) in enumerate(self._segments) if first > after + 1]
            paths = paths[max(0, (later[0] if later else len(paths)) - 1) :]
        for path in paths:
            with path.open("rb") as file:
                file.seek(offset)
                for raw in file:
                    offset += len(raw)
                    seq = _seq_of(raw)
                    if seq is not None and seq > after:
                        yield Line(seq, raw.rstrip(b"\n")), (path, offset)
            offset = 0

    def _read_acknowledged(self) -> int:
        try:
            return int((self._directory / "acknowledged").read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def _recover(self) -> int:
        """Finds the segments of an earlier process, cuts a half-written last line, returns the last number."""
        last = 0
        for path in sorted(self._directory.glob("*.jsonl"), key=lambda found: int(found.stem)):
            content = path.read_bytes()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                os.truncate(path, whole)
            if whole == 0:
                path.unlink()
                continue
            self._segments.append((int(path.stem), path))
            self._sizes[path] = whole
            final = content[:whole].rstrip(b"\n").rsplit(b"\n", 1)[-1]
            last = max(last, _seq_of(final) or 0)
        return last

    def _open_segment(self) -> IO[bytes]:
        path = self._segments[-1][1] if self._segments else self._add_segment(self._last_seq + 1)
        return path.open("ab")

    def _add_segment(self, first_seq: int) -> Path:
        path = self._directory / f"{first_seq:012d}.jsonl"
        self._segments.append((first_seq, path))
        self._sizes[path] = 0
        return path


def _seq_of(raw: bytes) -> int | None:
    """The number of a stored line without parsing all of it (it is written first)."""
    digits = raw[8:].split(b",", 1)[0].strip()
    return int(digits) if raw.startswith(b'{"seq": ') and digits.isdigit() else None
