"""The session's files (the whole projects directory: big tool output lies beside the transcript) as one archive."""

from __future__ import annotations

import tarfile
from pathlib import Path, PurePosixPath

from sandbox_payload.wire import MAX_ARTIFACT_BYTES

MAX_UNPACKED_BYTES = 1_000_000_000
_LARGE_FILE_BYTES = 2_000_000


class BadTranscript(Exception):
    """The archive is damaged or not one of ours."""


def restore_transcript(archive: Path, config: Path) -> None:
    """Unpacks below `config`/projects: plain files and directories only. Raises BadTranscript."""
    projects = config / "projects"
    projects.mkdir(parents=True, exist_ok=True)
    total = 0
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                name = PurePosixPath(member.name)
                if name.is_absolute() or ".." in name.parts or not name.parts:
                    raise BadTranscript(f"unsafe name {member.name!r}")
                if not member.isfile():
                    continue
                total += member.size
                source = tar.extractfile(member)
                if source is None or total > MAX_UNPACKED_BYTES:
                    raise BadTranscript("too large")
                target = projects.joinpath(*name.parts)
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as file:
                    while chunk := source.read(1_000_000):
                        file.write(chunk)
    except (tarfile.TarError, OSError, EOFError) as error:
        raise BadTranscript(str(error)) from error


def has_session(config: Path, session_id: str) -> bool:
    return any((config / "projects").glob(f"*/{session_id}.jsonl"))


def pack_transcript(config: Path, target: Path) -> Path | None:
    """Writes the archive; None without a session. What makes it too large to upload is left out, then everything."""
    projects = config / "projects"
    if not any(projects.glob("*/*.jsonl")):
        return None
    for largest in (MAX_UNPACKED_BYTES, _LARGE_FILE_BYTES):
        _pack(projects, target, largest)
        if target.stat().st_size <= MAX_ARTIFACT_BYTES:
            return target
    return None


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
    """Adds the file as long as it is now; one that grows meanwhile (the session goes on) is cut there."""
    with path.open("rb") as file:
        member = tar.gettarinfo(arcname=name, fileobj=file)
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        tar.addfile(member, file)
