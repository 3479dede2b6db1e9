"""Which bytes of a work tree file belong into git: the form in which the repository already stores that file.

Attributes may ask git to convert line ends or encodings. For a file whose stored form is converted already, so is the
new one (one changed line stays one changed line). Where blobs were never converted (CRLF stored although attributes
say text), the bytes pass through as they are, and files that merely look modified are not touched at all.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sandbox_payload.git import Git, GitFailed

MAX_FILE_BYTES = 95_000_000
"""GitHub refuses files of 100 MB, and an artifact can't be larger."""


@dataclass(frozen=True)
class Entry:
    """A file as git stores it: mode as in an index ("100644", "100755", "120000"), blob id."""

    mode: str
    blob: str


@dataclass
class Forms:
    """`entries`: new form per path, None for a path that is gone; unchanged paths are absent.

    `left_out`: paths that can't be stored, with the reason.
    """

    entries: dict[str, Entry | None] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def stored_forms(git: Git, paths: Sequence[str], known: Mapping[str, Entry]) -> Forms:
    """Writes the blobs of `paths` and says in which form each is stored, compared with what is `known`.

    Raises GitFailed when a file changes or vanishes in between (the caller looks again).
    """
    forms = Forms()
    files: dict[str, str] = {}
    for path in paths:
        mode = _mode(git, path, forms)
        if mode == "120000":
            target = os.fsencode((git.workspace / path).readlink())
            blob = git.run("hash-object", "-w", "--stdin", "--no-filters", stdin=target).decode().strip()
            forms.entries[path] = Entry(mode, blob)
        elif mode is not None:
            files[path] = mode
    for path, blob in _blobs(git, files, known).items():
        forms.entries[path] = Entry(files[path], blob)
    for path in [path for path, entry in forms.entries.items() if entry == known.get(path)]:
        del forms.entries[path]
    return forms


def _mode(git: Git, path: str, forms: Forms) -> str | None:
    try:
        found = os.lstat(os.fsencode(git.workspace / path))
    except (FileNotFoundError, NotADirectoryError):
        forms.entries[path] = None
        return None
    except OSError as error:
        forms.left_out[path] = error.strerror or str(error)
        return None
    if stat.S_ISLNK(found.st_mode):
        return "120000"
    if stat.S_ISDIR(found.st_mode):
        # A directory where a file was (its files are listed by themselves), or a repository inside the repository.
        if path.endswith("/"):
            forms.left_out[path] = "a git repository of its own"
        else:
            forms.entries[path] = None
        return None
    if not stat.S_ISREG(found.st_mode):
        forms.left_out[path] = "not a regular file"
    elif found.st_size > MAX_FILE_BYTES:
        forms.left_out[path] = f"larger than {MAX_FILE_BYTES // 1_000_000} MB"
    elif not os.access(os.fsencode(git.workspace / path), os.R_OK):
        forms.left_out[path] = "not readable"
    else:
        return "100755" if found.st_mode & stat.S_IXUSR else "100644"
    return None


def _blobs(git: Git, files: Mapping[str, str], known: Mapping[str, Entry]) -> dict[str, str]:
    """The blob to store for each file."""
    if not files:
        return {}
    paths = list(files)
    raw = _hash(git, paths, "--no-filters")
    cleaned = _hash(git, paths)
    chosen: dict[str, str] = {}
    for path in paths:
        before = known.get(path)
        if before is not None and before.blob in (raw[path], cleaned[path]):
            chosen[path] = before.blob
        elif raw[path] != cleaned[path] and before is not None and _has_crlf(git, before):
            chosen[path] = raw[path]
        else:
            chosen[path] = cleaned[path]
    return chosen


def _hash(git: Git, paths: Sequence[str], *options: str) -> dict[str, str]:
    plain = [path for path in paths if "\n" not in path and not path.startswith('"')]
    hashes: dict[str, str] = {}
    if plain:
        listing = b"".join(os.fsencode(path) + b"\n" for path in plain)
        found = git.run("hash-object", "-w", *options, "--stdin-paths", stdin=listing).decode().split()
        if len(found) != len(plain):
            raise GitFailed("hash-object: answers for another number of files")
        hashes.update(zip(plain, found, strict=True))
    for path in paths:
        if path not in hashes:
            hashes[path] = git.run("hash-object", "-w", *options, "--", path).decode().strip()
    return hashes


def _has_crlf(git: Git, entry: Entry) -> bool:
    return entry.mode != "120000" and b"\r\n" in git.run("cat-file", "blob", entry.blob, check=False)


def is_submodule(entry: Entry | None) -> bool:
    return entry is not None and entry.mode == "160000"


def index_lines(entries: Mapping[str, Entry | None]) -> bytes:
    """Input for `update-index -z --index-info`; removals first, so that a directory can take a file's place."""
    gone = [path for path, entry in entries.items() if entry is None]
    lines = [b"0 " + b"0" * 40 + b"\t" + os.fsencode(path) + b"\0" for path in gone]
    for path, entry in entries.items():
        if entry is not None:
            lines.append(f"{entry.mode} {entry.blob}\t".encode() + os.fsencode(path) + b"\0")
    return b"".join(lines)
