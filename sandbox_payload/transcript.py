"""The session's files (the whole projects directory: big tool output lies beside the transcript) as one archive."""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO

from sandbox_payload.wire import MAX_ARTIFACT_BYTES

MAX_UNPACKED_BYTES = 1_000_000_000
_LARGE_FILE_BYTES = 2_000_000
_BLOCK_BYTES = 65_536
_READ_BYTES = 1_000_000

Fingerprint = frozenset[tuple[str, int, int]]
"""Of the session's files: path, size, time of change."""


class BadTranscript(Exception):
    """The archive is damaged or not one of ours."""


class SessionTooLarge(Exception):
    """The session does not fit into an archive that the app takes."""


def restore_transcript(archive: Path, config: Path) -> None:
    """Makes `config`/projects what was packed: plain files and directories only, all of them or none. Raises
    BadTranscript, and SessionTooLarge for the archive of a session that was.
    """
    unpacked, projects = config / "unpacked", config / "projects"
    shutil.rmtree(unpacked, ignore_errors=True)  # of a payload that died here
    try:
        unpacked.mkdir(parents=True)
        with gzip.open(archive) as file:
            with tarfile.open(fileobj=file, mode="r:") as tar:
                _unpack(tar, unpacked)
            # To the end, where the checksum of all of it stands; a whole archive has only padding left.
            if len(file.read(tarfile.RECORDSIZE + 1)) > tarfile.RECORDSIZE:
                raise BadTranscript("more than was packed")
        if not any(unpacked.iterdir()):
            raise SessionTooLarge
        shutil.rmtree(projects, ignore_errors=True)
        unpacked.replace(projects)
    # A damaged archive can raise any of these from within, a made-up name the last.
    except (tarfile.TarError, zlib.error, OSError, EOFError, ValueError) as error:
        raise BadTranscript(str(error)[:300]) from error
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)


def _unpack(tar: tarfile.TarFile, into: Path) -> None:
    total = 0
    for member in tar:
        name = PurePosixPath(member.name)
        if name.is_absolute() or ".." in name.parts or not name.parts:
            raise BadTranscript(f"unsafe name {member.name[:100]!r}")
        if not member.isfile():
            continue
        total += member.size
        source = tar.extractfile(member)
        if source is None or total > MAX_UNPACKED_BYTES:
            raise BadTranscript("too large")
        target = into.joinpath(*name.parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            while chunk := source.read(_READ_BYTES):
                file.write(chunk)


def has_session(config: Path, session_id: str) -> bool:
    return any((config / "projects").glob(f"*/{session_id}.jsonl"))


def has_answer(config: Path, session_id: str) -> bool:
    """Whether the model has said anything in that session: before, there is nothing to go on with."""
    for path in (config / "projects").glob(f"*/{session_id}.jsonl"):
        with path.open("rb") as file:
            if any(b'"type":"assistant"' in line for line in file):
                return True
    return False


def fingerprint(config: Path) -> Fingerprint:
    """Differs when the session has gone on."""
    found = []
    for directory, _, names in os.walk(config / "projects"):
        for name in names:
            path = Path(directory, name)
            try:
                seen = path.lstat()
            except OSError:  # gone meanwhile
                continue
            found.append((str(path), seen.st_size, seen.st_mtime_ns))
    return frozenset(found)


def pack_transcript(config: Path, target: Path) -> Path | None:
    """Writes the archive; None without a session. What makes it too large to upload is left out. Raises SessionTooLarge
    when that does not do: then the archive is an empty one, which in place of the session as it was earlier keeps
    anybody from going on with that one.
    """
    projects = config / "projects"
    if not any(projects.glob("*/*.jsonl")):
        return None
    for largest in (MAX_UNPACKED_BYTES, _LARGE_FILE_BYTES):
        _pack(projects, target, largest)
        if target.stat().st_size <= MAX_ARTIFACT_BYTES:
            return target
    with tarfile.open(target, "w:gz"):
        pass
    raise SessionTooLarge(f"more than {MAX_ARTIFACT_BYTES} bytes")


def _pack(projects: Path, target: Path, largest_bytes: int) -> None:
    temporary = target.with_suffix(".new")
    with tarfile.open(temporary, "w:gz", compresslevel=5) as tar:
        for path in sorted(projects.rglob("*")):
            if path.is_symlink() or not path.is_file():
                continue
            is_session = path.suffix == ".jsonl" and path.parent.parent == projects
            if path.stat().st_size <= largest_bytes or is_session:
                _add(tar, path, str(path.relative_to(projects)))
    temporary.replace(target)


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    """Adds the file as long as it is now, a session in whole lines: while the session goes on, the last may be half."""
    with path.open("rb") as file:
        member = tar.gettarinfo(arcname=name, fileobj=file)
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        if path.suffix == ".jsonl":
            member.size = _whole_lines(file, member.size)
            file.seek(0)
        tar.addfile(member, file)


def _whole_lines(file: IO[bytes], size: int) -> int:
    """How many of the first `size` bytes are lines with their ends."""
    while size > 0:
        start = max(0, size - _BLOCK_BYTES)
        file.seek(start)
        end = file.read(size - start).rfind(b"\n")
        if end >= 0:
            return start + end + 1
        size = start
    return 0
