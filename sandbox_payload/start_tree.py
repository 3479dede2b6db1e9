"""Which paths the repository had at the start commit, whatever the agent does to its work tree."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from sandbox_payload.git import Git


def read_start_tree(workspace: Path, start_sha: str) -> frozenset[str]:
    """Every file and directory of the commit, relative and with forward slashes. Raises GitFailed."""
    listed = Git(workspace).run("ls-tree", "-r", "-z", "--name-only", "--full-tree", start_sha)
    paths: set[str] = set()
    for raw in listed.split(b"\0"):
        if raw:
            path = PurePosixPath(os.fsdecode(raw))
            paths.add(str(path))
            paths.update(str(parent) for parent in path.parents[:-1])
    return frozenset(paths)
