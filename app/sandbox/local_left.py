"""What a local sandbox that has ended still holds, copied out of its state directory.

That was the agent's to write: no link in it is followed, only plain files are read, and none beyond its limit.
"""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack, suppress
from pathlib import Path

from app.domain.remote import Left
from sandbox_payload.wire import MAX_ARTIFACT_BYTES
from sandbox_payload.wire.left import (
    KEPT_FILE,
    LEFT_FILES,
    MAX_SPOOL_FILE_BYTES,
    SPOOL_DIR,
    SPOOL_FILE,
    SPOOL_FILES,
    WORK_FILE,
)

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PIECE_BYTES = 1_000_000


def copy_left(state: Path, directory: Path) -> Left:
    """See `remote.KeepsFiles`. Nothing of a sandbox that is gone."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    saved: dict[str, Path] = {}
    ages: dict[str, float] = {}
    spool: list[Path] = []
    with ExitStack() as opened:
        folder = _open_directory(opened, state)
        if folder is None:
            return Left()
        for file in LEFT_FILES:
            changed_at = _copy(folder, file, directory / file, MAX_ARTIFACT_BYTES)
            if changed_at is not None:
                saved[file], ages[file] = directory / file, changed_at
        events = _open_below(opened, folder, SPOOL_DIR)
        if events is not None:
            spool += (
                directory / file
                for file in _newest_names(events)
                if _copy(events, file, directory / file, MAX_SPOOL_FILE_BYTES) is not None
            )
    bundles = {WORK_FILE, KEPT_FILE} & saved.keys()
    return Left.of(saved, max(bundles, key=lambda file: ages[file], default=None), spool, relayed=False)


def _open_directory(opened: ExitStack, path: Path) -> int | None:
    """A descriptor until the stack is closed; None when there is none, or a link in its place."""
    with suppress(OSError):
        found = os.open(path, _READ | os.O_DIRECTORY)
        opened.callback(os.close, found)
        return found
    return None


def _open_below(opened: ExitStack, folder: int, name: str) -> int | None:
    """The same of one in an open directory."""
    with suppress(OSError):
        found = os.open(name, _READ | os.O_DIRECTORY, dir_fd=folder)
        opened.callback(os.close, found)
        return found
    return None


def _newest_names(events: int) -> list[str]:
    """Of the files of events, the oldest first."""
    with os.scandir(events) as entries:
        names = (entry.name for entry in entries if SPOOL_FILE.fullmatch(entry.name))
        return sorted(names)[-SPOOL_FILES:]


def _copy(folder: int, name: str, target: Path, limit: int) -> float | None:
    """When the file was changed last; None when it is none of ours: then there is no copy."""
    try:
        descriptor = os.open(name, _READ, dir_fd=folder)
    except OSError:
        return None
    try:
        seen = os.fstat(descriptor)
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > limit:
            return None
        with target.open("wb") as out:
            rest = seen.st_size  # no further, if it grows meanwhile
            while rest > 0 and (piece := os.read(descriptor, min(rest, _PIECE_BYTES))):
                out.write(piece)
                rest -= len(piece)
    finally:
        os.close(descriptor)
    return seen.st_mtime
