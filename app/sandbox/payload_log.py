"""The payload's output on disk: capped, the newest kept, addressed by offset in the whole stream.

A segment's file name is the offset of its first byte, so that any process can read on without further record.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_DIGITS = 15


def _segments(directory: Path) -> list[tuple[int, Path]]:
    try:
        names = os.listdir(directory)  # noqa: PTH208 - names are all that is wanted
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted((int(name), directory / name) for name in names if name.isdigit())


class PayloadLog:
    """Written by one keeper. At most `segments` files of `segment_bytes` stay."""

    def __init__(self, directory: Path, segment_bytes: int, segments: int) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._segments = segments
        self._offset = 0
        self._room = 0
        self._descriptor = -1

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            if self._room == 0:
                self._rotate()
            written = os.write(self._descriptor, view[: self._room])
            self._offset += written
            self._room -= written
            view = view[written:]

    def _rotate(self) -> None:
        self.close()
        path = self._directory / f"{self._offset:0{_DIGITS}d}"
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._room = self._segment_bytes
        for _, old in _segments(self._directory)[: -self._segments]:
            with suppress(FileNotFoundError):
                old.unlink()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._room = 0


def read_log(directory: Path, offset: int, limit: int) -> bytes:
    """At most `limit` bytes from `offset` of the stream; from the oldest kept byte when `offset` was dropped."""
    found = bytearray()
    for start, path in _segments(directory):
        want = max(offset, start)
        if found and start != offset:
            break
        try:
            with path.open("rb") as file:
                file.seek(want - start)
                piece = file.read(limit - len(found))
        except FileNotFoundError:
            continue
        found += piece
        if piece:
            offset = want + len(piece)
        if len(found) >= limit:
            break
    return bytes(found)


def read_log_start(directory: Path) -> int:
    """The offset of the oldest kept byte; 0 when there is none."""
    return next((start for start, _ in _segments(directory)), 0)


def read_log_tail(directory: Path, size: int) -> bytes:
    """The last `size` bytes of the stream as far as they are kept."""
    end = 0
    for start, path in _segments(directory)[-1:]:
        with suppress(FileNotFoundError):
            end = start + path.stat().st_size
    return read_log(directory, max(0, end - size), size)
