"""Merges the result of a task onto a branch that moved on meanwhile, in the quarantine, without a work tree.

Objects only (`git merge-tree`): no file is written out, no attribute or driver of the repository is run. The same input
gives the same commit, so that a call repeated after a crash pushes the same one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from app.git.command import GitFailed, run_git_capped
from app.git.objects import READ_CAPS, parse_commit, read_objects, text_of
from app.git.rewrite import date_of

_COMMIT_BYTES = 1_000_000
_MAX_PATHS = 50


@dataclass(frozen=True)
class Merged:
    """`sha` has everything of both; `made`: a merge commit was needed."""

    sha: str
    made: bool


@dataclass(frozen=True)
class Conflicted:
    """Nothing was merged: `paths` differ on both sides in ways that git can't put together; at most 50 are named."""

    paths: tuple[str, ...]


async def merge_result(
    quarantine: Path, onto: str, head: str, *, author: str, message: str
) -> Merged | Conflicted:
    """Put `head` onto the commit `onto`, both in the quarantine. `author` is "Name <email>"; the merge carries the date
    of `head`. Raises GitFailed.
    """
    if await _is_ancestor(quarantine, onto, head):
        return Merged(head, made=False)
    if await _is_ancestor(quarantine, head, onto):
        return Merged(onto, made=False)
    tree = await _merge_trees(quarantine, onto, head)
    if isinstance(tree, Conflicted):
        return tree
    raw = (await read_objects(quarantine, [head], _COMMIT_BYTES))[head]
    when = date_of(parse_commit(head, raw).committer)
    lines = [f"tree {tree}", f"parent {onto}", f"parent {head}"]
    signatures = [f"{who} {author}".encode() + when for who in ("author", "committer")]
    content = b"\n".join([*(line.encode() for line in lines), *signatures]) + f"\n\n{message}\n".encode()
    return Merged(await _store(quarantine, content), made=True)


async def _is_ancestor(git_dir: Path, older: str, newer: str) -> bool:
    try:
        await run_git_capped(
            "merge-base", "--is-ancestor", "--end-of-options", older, newer, git_dir=git_dir, caps=READ_CAPS
        )
    except GitFailed as error:
        if error.returncode != 1:
            raise
        return False
    return True


async def _merge_trees(git_dir: Path, onto: str, head: str) -> str | Conflicted:
    """The merged tree's id. git leaves with 1 and lists what conflicts."""
    try:
        output = await run_git_capped(
            "merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", "--end-of-options", onto, head,
            git_dir=git_dir, caps=READ_CAPS,
        )  # fmt: skip
    except GitFailed as error:
        if error.returncode != 1:
            raise
        paths = [text_of(path) for path in error.stdout.split(b"\0")[1:] if path]
        return Conflicted(tuple(dict.fromkeys(paths))[:_MAX_PATHS])
    return output.split(b"\0")[0].decode("ascii").strip()


async def _store(git_dir: Path, content: bytes) -> str:
    path = (git_dir / "merged").absolute()
    try:
        await asyncio.to_thread(path.write_bytes, content)
        stored = await run_git_capped(
            "hash-object", "-t", "commit", "-w", "--no-filters", str(path), git_dir=git_dir, caps=READ_CAPS
        )
    finally:
        await asyncio.to_thread(path.unlink, missing_ok=True)
    return stored.decode("ascii").strip()
