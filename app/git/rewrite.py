"""Makes a result's commits anew with the App as their author, without touching a single file.

Nobody inside a sandbox decides under whose name something is published. The same input gives the same ids, so that a
call repeated after a crash pushes the same commits, and the next round of the same sandbox continues them.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from app.git.command import run_git_capped
from app.git.objects import READ_CAPS, CommitObject, parse_commit, read_objects
from app.git.quarantine import BASE_REF

_MAX_COMMITS_BYTES = 10_000_000
_IDENTITY = re.compile(r"[^<>\n\0]+ <[^<>\s\0]+>")
_WHEN = re.compile(rb" (\d{1,11}) ([+-]\d{4})$")
_DIRECTORY = "rewritten"


async def rewrite_authors(  # the six things that decide the new ids
    quarantine: Path,
    start_sha: str,
    head_sha: str,
    author: str,
    trailers: tuple[str, ...],
    message_filter: Callable[[str], str],
) -> str:
    """The new head: every commit of `start_sha..head_sha` re-made with `author` ("Name <email>") and `trailers`.

    Trees, dates and the shape of the history stay; signatures go. Commits that the base or the mirror's branches hold
    already (the agent merged them in) stay as they are. Raises GitFailed; ValueError for an author or trailer that
    would not stand on one line.
    """
    if not _IDENTITY.fullmatch(author):
        raise ValueError("the author must read: Name <email>")
    if any(not trailer or "\n" in trailer or "\0" in trailer for trailer in trailers):
        raise ValueError("a trailer is one line")
    listing = await run_git_capped(
        "rev-list", "--topo-order", "--reverse", head_sha, "--not", start_sha, BASE_REF, "--alternate-refs",
        git_dir=quarantine, caps=READ_CAPS,
    )  # fmt: skip
    order = listing.decode("ascii").split()
    contents = await read_objects(quarantine, order, _MAX_COMMITS_BYTES)
    renamed: dict[str, str] = {}
    objects: list[bytes] = []
    for sha in order:
        commit = parse_commit(sha, contents[sha])
        body = _with_trailers(message_filter(commit.message), trailers)
        parents = [renamed.get(parent, parent) for parent in commit.parents]
        remade = _render(commit, parents, author.encode(), body)
        renamed[sha] = _object_id(remade, len(sha))
        objects.append(remade)
    await _store(quarantine, objects, [renamed[sha] for sha in order])
    return renamed.get(head_sha, head_sha)


def _with_trailers(message: str, trailers: Sequence[str]) -> bytes:
    text = message.rstrip("\n") + "\n"
    if trailers:
        text += "\n" + "".join(f"{trailer}\n" for trailer in trailers)
    return text.replace("\0", "").encode("utf-8", "replace")


def _render(commit: CommitObject, parents: Sequence[str], author: bytes, body: bytes) -> bytes:
    lines = [f"tree {commit.tree}".encode(), *(f"parent {parent}".encode() for parent in parents)]
    lines += (
        b"author " + author + date_of(commit.author),
        b"committer " + author + date_of(commit.committer),
    )
    return b"\n".join(lines) + b"\n\n" + body


def date_of(signature: bytes) -> bytes:
    """The date part of a commit's author or committer line; the epoch when it can't be read, since today would give another id each time."""
    match = _WHEN.search(signature)
    return match[0] if match else b" 0 +0000"


def _object_id(commit: bytes, digits: int) -> str:
    data = b"commit %d\0" % len(commit) + commit
    return (hashlib.sha256(data) if digits == 64 else hashlib.sha1(data, usedforsecurity=False)).hexdigest()


async def _store(quarantine: Path, objects: Sequence[bytes], shas: Sequence[str]) -> None:
    """Write the commits in one go, through git, which checks their form."""
    if not objects:
        return
    directory = (quarantine / _DIRECTORY).absolute()
    try:
        paths = await asyncio.to_thread(_spread, directory, objects)
        stored = await run_git_capped(
            "hash-object", "-t", "commit", "-w", "--no-filters", "--stdin-paths",
            git_dir=quarantine, caps=READ_CAPS, stdin="".join(f"{path}\n" for path in paths).encode(),
        )  # fmt: skip
    finally:
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
    if stored.decode("ascii").split() != list(shas):
        raise RuntimeError("git gave a rewritten commit another id than expected")


def _spread(directory: Path, objects: Sequence[bytes]) -> list[Path]:
    directory.mkdir(exist_ok=True)
    paths = []
    for number, data in enumerate(objects):
        path = directory / str(number)
        path.write_bytes(data)
        paths.append(path)
    return paths
