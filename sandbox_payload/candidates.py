"""Which paths of a work tree may differ from an index, and what an index or a tree holds."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sandbox_payload.git import Git
from sandbox_payload.stored import Entry


def changed_paths(git: Git) -> list[str]:
    """Paths that git's index calls modified or deleted, and untracked ones that are not ignored."""
    listed = git.run("ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard")
    return list(dict.fromkeys(os.fsdecode(path) for path in listed.split(b"\0") if path))


def staged_paths(git: Git, tree: str) -> list[str]:
    """Paths that the index holds in another form than `tree` does (also ignored files added on purpose)."""
    listed = git.run("diff-index", "--cached", "--name-only", "-z", "--no-renames", tree, check=False)
    return [os.fsdecode(path) for path in listed.split(b"\0") if path]


def index_entries(git: Git, paths: Sequence[str]) -> dict[str, Entry]:
    """What the index holds for `paths`."""
    if not paths:
        return {}
    if len(paths) > 200:
        listed = git.run("ls-files", "-z", "--stage")
    else:
        listed = git.run("--literal-pathspecs", "ls-files", "-z", "--stage", "--", *paths)
    entries: dict[str, Entry] = {}
    for line in listed.split(b"\0"):
        head, tab, path = line.partition(b"\t")
        if tab:
            mode, blob, _stage = head.decode().split(" ")
            entries[os.fsdecode(path)] = Entry(mode, blob)
    return entries
