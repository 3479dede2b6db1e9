"""What a local sandbox that has ended still holds, copied out of its state directory.

That was the agent's to write: no link in it is followed, only plain files are read, and none beyond its limit.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.domain.remote import Left
from sandbox_payload.wire import MAX_ARTIFACT_BYTES
from sandbox_payload.wire.left import (
    KEPT_FILE,
    LEFT_FILES,
    MANIFEST_FILE,
    MAX_SPOOL_FILE_BYTES,
    SPOOL_DIR,
    SPOOL_FILE,
    SPOOL_FILES,
    TRANSCRIPT_FILE,
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
    with _opened(state, None) as folder:
        for file in LEFT_FILES if folder is not None else ():
            changed_at = _copy(folder, file, directory / file, MAX_ARTIFACT_BYTES)
            if changed_at is not None:
                saved[file], ages[file] = directory / file, changed_at
        with _opened(SPOOL_DIR, folder) as events:
            names = _newest_names(events)
            spool += (
                directory / file
                for file in names
                if _copy(events, file, directory / file, MAX_SPOOL_FILE_BYTES) is not None
            )
    bundles = sorted({WORK_FILE, KEPT_FILE} & saved.keys(), key=lambda file: ages[file])
    return Left(
        checkpoint=saved[bundles[-1]] if bundles else None,
        transcript=saved.get(TRANSCRIPT_FILE),
        result=saved.get(WORK_FILE),
        manifest=saved.get(MANIFEST_FILE),
        spool=tuple(spool),
    )


@contextmanager
def _opened(place: Path | str, within: int | None) -> Iterator[int | None]:
    """A descriptor of the directory; None when there is none, or a link in its place."""
    try:
        found = (
            None
            if isinstance(place, str) and within is None
            else os.open(place, _READ | os.O_DIRECTORY, dir_fd=within)
        )
    except OSError:
        found = None
    try:
        yield found
    finally:
        if found is not None:
            os.close(found)


def _newest_names(events: int | None) -> list[str]:
    """Of the files of events, the oldest first."""
    if events is None:
        return []
    with os.scandir(events) as entries:
        names = (entry.name for entry in entries if SPOOL_FILE.fullmatch(entry.name))
        return sorted(names)[-SPOOL_FILES:]


def _copy(folder: int | None, name: str, target: Path, limit: int) -> float | None:
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
