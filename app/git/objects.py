"""Reads objects and trees out of a bare repository, as bytes, without a work tree."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from app.git.command import Caps, run_git_capped

READ_CAPS = Caps(file_bytes=1_000_000, cpu_s=120)
_RAW = re.compile(rb":(\d{6}) (\d{6}) ([0-9a-f]+) ([0-9a-f]+) ([A-Z])\d*")
_BATCH = 1_000


@dataclass(frozen=True)
class TreeEntry:
    mode: str
    sha: str


@dataclass(frozen=True)
class RawChange:
    """One line of a raw diff without rename detection. Shas are all zeros for what is absent."""

    path: str
    old: TreeEntry
    new: TreeEntry


@dataclass(frozen=True)
class ObjectInfo:
    kind: str
    size: int


@dataclass(frozen=True)
class CommitObject:
    """A commit as stored: header lines apart from the message, both untouched."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author: bytes
    committer: bytes
    message: str


def text_of(path: bytes) -> str:
    """A path as text that keeps every byte (UTF-8 with surrogateescape)."""
    return path.decode("utf-8", "surrogateescape")


async def list_tree(git_dir: Path, commit: str) -> dict[str, TreeEntry]:
    """All files, links and submodules of a commit by path. Raises GitFailed."""
    output = await run_git_capped(
        "ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit,
        git_dir=git_dir, caps=READ_CAPS, limit_bytes=200_000_000,
    )  # fmt: skip
    entries = {}
    for line in filter(None, output.split(b"\0")):
        head, _, path = line.partition(b"\t")
        mode, _, sha = head.decode("ascii").split(" ")
        entries[text_of(path)] = TreeEntry(mode, sha)
    return entries


async def list_changes(git_dir: Path, old: str, new: str, limit_bytes: int) -> list[RawChange]:
    """What differs between two commits' trees; a move is a deletion and an addition. Raises GitFailed."""
    output = await run_git_capped(
        "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--no-ext-diff", "--no-textconv",
        "--ignore-submodules=none", "--end-of-options", old, new,
        git_dir=git_dir, caps=READ_CAPS, limit_bytes=limit_bytes,
    )  # fmt: skip
    fields = output.split(b"\0")
    changes = []
    for head, path in zip(fields[::2], fields[1::2], strict=False):
        match = _RAW.fullmatch(head)
        if match is None:
            raise ValueError("git's raw diff has an unknown form")
        old_mode, new_mode, old_sha, new_sha, _ = (part.decode("ascii") for part in match.groups())
        changes.append(RawChange(text_of(path), TreeEntry(old_mode, old_sha), TreeEntry(new_mode, new_sha)))
    return changes


async def fetch_infos(git_dir: Path, shas: Iterable[str]) -> dict[str, ObjectInfo]:
    """Kind and size in bytes of each object; the missing ones are left out."""
    names = "\n".join(dict.fromkeys(shas))
    if not names:
        return {}
    output = await run_git_capped(
        "cat-file", "--batch-check", "--buffer", git_dir=git_dir, caps=READ_CAPS, stdin=f"{names}\n".encode()
    )
    infos = {}
    for line in output.decode("ascii", "replace").splitlines():
        parts = line.split(" ")
        if len(parts) == 3 and parts[2].isdigit():
            infos[parts[0]] = ObjectInfo(parts[1], int(parts[2]))
    return infos


async def read_objects(git_dir: Path, shas: Iterable[str], limit_bytes: int) -> dict[str, bytes]:
    """The contents of objects that are known to exist, at most `limit_bytes` in all. Raises GitFailed."""
    wanted = list(dict.fromkeys(shas))
    contents: dict[str, bytes] = {}
    for start in range(0, len(wanted), _BATCH):
        names = "\n".join(wanted[start : start + _BATCH])
        output = await run_git_capped(
            "cat-file", "--batch", "--buffer",
            git_dir=git_dir, caps=READ_CAPS, stdin=f"{names}\n".encode(), limit_bytes=limit_bytes + 200 * _BATCH,
        )  # fmt: skip
        contents.update(_split_batch(output))
    return contents


def _split_batch(output: bytes) -> dict[str, bytes]:
    contents = {}
    position = 0
    while position < len(output):
        end = output.index(b"\n", position)
        sha, _, size = output[position:end].decode("ascii").split(" ")
        position = end + 1 + int(size)
        contents[sha] = output[end + 1 : position]
        position += 1
    return contents


def parse_commit(sha: str, raw: bytes) -> CommitObject:
    """Raises ValueError when it is not a commit with tree, author and committer."""
    head, _, body = raw.partition(b"\n\n")
    fields: dict[bytes, list[bytes]] = {}
    for line in head.split(b"\n"):
        # Lines that begin with a blank continue a signature or a merged tag, which nobody needs here.
        if not line.startswith(b" "):
            key, _, value = line.partition(b" ")
            fields.setdefault(key, []).append(value)
    try:
        tree, author, committer = (fields[key][0] for key in (b"tree", b"author", b"committer"))
    except KeyError as error:
        raise ValueError(f"commit {sha} has no {error}") from None
    encoding = fields.get(b"encoding", [b"utf-8"])[0].decode("ascii", "replace")
    try:
        message = body.decode(encoding, "replace")
    except (LookupError, ValueError):
        message = body.decode("utf-8", "replace")
    parents = tuple(parent.decode("ascii") for parent in fields.get(b"parent", []))
    return CommitObject(sha, tree.decode("ascii"), parents, author, committer, message)
