"""What changed in the work tree since the last look, taken from the file system: whoever or whatever changed it.

A private index and object store hold the last seen state; the agent's index, branch and commits play no part. The
patches are git's own, so the counts are those of `git diff --numstat`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sandbox_payload.candidates import changed_paths, index_entries
from sandbox_payload.git import Git, GitFailed
from sandbox_payload.stored import Entry, index_lines, is_submodule, stored_forms

MAX_FILES_AT_ONCE = 300
"""More changes than this in one look are named without their patches."""
_CHANGE = {"A": "created", "D": "deleted"}

_Stat = tuple[int, int, int, int]


@dataclass(frozen=True)
class FileChange:
    """One file's change; `full_diff` is "" for a binary file, whose counts are 0."""

    path: str
    change: str
    lines_added: int
    lines_removed: int
    full_diff: str
    binary: bool = False


class Changes:
    """The last seen state is kept below `state`, so that a restarted payload goes on from there."""

    def __init__(self, workspace: Path, state: Path) -> None:
        self._directory = state / "seen"
        self._objects = self._directory / "objects"
        self._index = self._directory / "index"
        self._plain = Git(workspace)
        self._git = self._plain
        self._tree = ""
        self._settled: dict[str, _Stat] = {}

    def begin(self) -> None:
        """Takes the checked-out commit as already seen. Raises GitFailed."""
        self._objects.mkdir(parents=True, exist_ok=True)
        common = os.fsdecode(self._plain.run("rev-parse", "--git-common-dir").rstrip(b"\n"))
        self._git = self._plain.with_environment(
            {
                "GIT_INDEX_FILE": str(self._index),
                "GIT_OBJECT_DIRECTORY": str(self._objects),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self._plain.workspace / common / "objects"),
            }
        )
        self._git.disarm_filters()
        if not self._index.is_file():
            self._git.run("read-tree", "HEAD")
        self._git.run("update-index", "-q", "--refresh", check=False)
        self._tree = self._git.run("write-tree").decode().strip()

    def look(self) -> list[FileChange]:
        """The changes since the last look. A file that changes during the look is seen by the next one."""
        try:
            return self._look()
        except (GitFailed, OSError):
            return []

    def _look(self) -> list[FileChange]:
        now = {path: self._stat(path) for path in changed_paths(self._git)}
        fresh = [path for path, found in now.items() if self._settled.get(path) != found]
        if not fresh:
            return []
        known = index_entries(self._git, fresh)
        fresh = [path for path in fresh if not is_submodule(known.get(path))]
        forms = stored_forms(self._git, fresh, known)
        self._settled.update((path, now[path]) for path in fresh)
        if not forms.entries:
            return []
        return self._record(forms.entries)

    def _record(self, entries: dict[str, Entry | None]) -> list[FileChange]:
        self._git.run("update-index", "-z", "--index-info", stdin=index_lines(entries))
        before, self._tree = self._tree, self._git.run("write-tree").decode().strip()
        self._git.run("update-index", "-q", "--refresh", check=False)
        options = ["-r", "--raw", "--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv"]
        if len(entries) <= MAX_FILES_AT_ONCE:
            options.append("-p")
        return parse_changes(self._git.run("diff-tree", *options, before, self._tree))

    def _stat(self, path: str) -> _Stat:
        try:
            found = os.lstat(os.fsencode(self._git.workspace / path))
        except OSError:
            return (0, 0, 0, 0)
        return (found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode)


def parse_changes(output: bytes) -> list[FileChange]:
    """Reads `diff-tree --raw --numstat -z [-p]`: NUL-separated records, then one patch section per file in order."""
    records, _, patch = output.partition(b"\0\0")
    statuses: list[tuple[str, str]] = []
    counts: dict[str, tuple[bytes, bytes]] = {}
    fields = iter(records.rstrip(b"\0").split(b"\0"))
    for field in fields:
        if field.startswith(b":"):
            statuses.append((os.fsdecode(next(fields)), field.rsplit(b" ", 1)[-1][:1].decode()))
        elif field.count(b"\t") >= 2:
            added, removed, name = field.split(b"\t", 2)
            counts[os.fsdecode(name)] = (added, removed)
    sections = _sections(patch)
    changes = []
    for path, status in statuses:
        # A file that became a link (or back) has two sections: one away, one new.
        text = b"".join(sections[: 2 if status == "T" else 1])
        del sections[: 2 if status == "T" else 1]
        added, removed = counts.get(path, (b"0", b"0"))
        binary = added == b"-"
        changes.append(
            FileChange(
                path=path,
                change=_CHANGE.get(status, "modified"),
                lines_added=0 if binary else int(added),
                lines_removed=0 if binary else int(removed),
                full_diff="" if binary else text.decode(errors="replace"),
                binary=binary,
            )
        )
    return changes


def _sections(patch: bytes) -> list[bytes]:
    """Splits a patch at its file headers; lines of content never start with `diff --git`."""
    starts = [0] if patch.startswith(b"diff --git ") else []
    at = patch.find(b"\ndiff --git ")
    while at != -1:
        starts.append(at + 1)
        at = patch.find(b"\ndiff --git ", at + 1)
    return [patch[start:end] for start, end in zip(starts, [*starts[1:], len(patch)], strict=True)]
