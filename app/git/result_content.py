"""The facts about a result for which file contents are read: added text, links, twins, binaries, blank changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from app.domain.result_policy import ABSENT, GITLINK, SYMLINK, AddedText, ChangedEntry, ResultFacts
from app.domain.tree_path import twin_paths
from app.git.objects import ObjectInfo, RawChange, TreeEntry, fetch_infos, list_tree, read_objects, text_of

_LFS_START = b"version https://git-lfs.github.com/spec/"
_BINARY_PROBE_BYTES = 8000
_MAX_LINK_BYTES = 1024
_OLD_BYTES = 100_000_000
_NEW_BYTES = 200_000_000
_LINK_BYTES = 20_000_000


@dataclass(frozen=True)
class NewContent:
    """New blobs' paths by id, the changes between merge base and head, and what is known of each object."""

    paths: Mapping[str, str]
    changes: tuple[RawChange, ...]
    infos: Mapping[str, ObjectInfo]


@dataclass(frozen=True)
class _Blobs:
    """Contents by id: all new ones, and the old ones that are small enough to compare with."""

    new: Mapping[str, bytes]
    old: Mapping[str, bytes]


async def with_contents(git_dir: Path, facts: ResultFacts, content: NewContent) -> ResultFacts:
    """`facts` completed. Their sizes are within the limits, so everything new fits into memory. Raises GitFailed."""
    before = await list_tree(git_dir, facts.base_sha)
    after = await list_tree(git_dir, facts.head_sha)
    blobs = await _read(git_dir, content, before)
    added = [entry.path for entry in facts.entries if entry.old_mode == ABSENT]
    return replace(
        facts,
        entries=tuple(
            _entry(entry, change, blobs) for entry, change in zip(facts.entries, content.changes, strict=True)
        ),
        added=tuple(
            _added(path, blobs.new[sha], before.get(path), blobs) for sha, path in content.paths.items()
        ),
        links=await _read_links(git_dir, facts, after),
        twins=tuple(twin_paths(added, _with_directories(after), _with_directories(before))) if added else (),
        whitespace_only=_is_blank_change(content.changes, blobs),
    )


async def _read(git_dir: Path, content: NewContent, before: Mapping[str, TreeEntry]) -> _Blobs:
    present = [change.new.sha for change in content.changes if change.new.mode not in {ABSENT, GITLINK}]
    # Changed entries may point to content that the mirror had already; it is read only if it is small.
    known = [sha for sha in present if sha not in content.paths]
    earlier = [before[path].sha for path in content.paths.values() if path in before]
    earlier += [change.old.sha for change in content.changes if change.old.mode not in {ABSENT, GITLINK}]
    infos = await fetch_infos(git_dir, [*earlier, *known])
    blobs = [sha for sha in dict.fromkeys([*known, *earlier]) if sha in infos and infos[sha].kind == "blob"]
    sums = accumulate(infos[sha].size for sha in blobs)
    old = await read_objects(
        git_dir, [sha for sha, total in zip(blobs, sums, strict=True) if total <= _OLD_BYTES], _OLD_BYTES
    )
    return _Blobs(await read_objects(git_dir, content.paths, _NEW_BYTES), old)


def _entry(entry: ChangedEntry, change: RawChange, blobs: _Blobs) -> ChangedEntry:
    data = blobs.new.get(change.new.sha, blobs.old.get(change.new.sha))
    if data is None or entry.new_mode in {ABSENT, GITLINK, SYMLINK}:
        return entry
    return replace(entry, is_binary=_is_binary(data), is_lfs_pointer=data.startswith(_LFS_START))


def _is_binary(data: bytes) -> bool:
    return b"\0" in data[:_BINARY_PROBE_BYTES]


def _added(path: str, data: bytes, old: TreeEntry | None, blobs: _Blobs) -> AddedText:
    """Lines of `data` that the old file had not. Zero bytes are dropped, so that UTF-16 text is seen as well."""
    had = frozenset(blobs.old.get(old.sha, b"").split(b"\n")) if old is not None else frozenset()
    lines = (b"" if line in had else line for line in data.split(b"\n"))
    return AddedText(path, b"\n".join(lines).replace(b"\0", b"").decode("utf-8", "replace"))


async def _read_links(
    git_dir: Path, facts: ResultFacts, tree: Mapping[str, TreeEntry]
) -> tuple[tuple[str, str], ...]:
    """All symbolic links of the result with their targets, when one of them was changed."""
    if all(entry.new_mode != SYMLINK for entry in facts.entries):
        return ()
    links = {path: entry.sha for path, entry in tree.items() if entry.mode == SYMLINK}
    infos = await fetch_infos(git_dir, links.values())
    short = [sha for sha, info in infos.items() if info.size <= _MAX_LINK_BYTES]
    targets = await read_objects(git_dir, short, _LINK_BYTES)
    # Longer targets serve nobody; `/` makes each one that leads out.
    return tuple((path, text_of(targets.get(sha, b"/"))) for path, sha in links.items())


def _with_directories(tree: Mapping[str, TreeEntry]) -> Iterator[str]:
    seen: set[str] = set()
    for path in tree:
        yield path
        while path and (path := path.rpartition("/")[0]) not in seen:
            seen.add(path)
            if path:
                yield path


def _is_blank_change(changes: tuple[RawChange, ...], blobs: _Blobs) -> bool:
    """Whether only existing text files change, and only in blank lines and white space at line ends."""
    for change in changes:
        old, new = blobs.old.get(change.old.sha), blobs.new.get(change.new.sha, blobs.old.get(change.new.sha))
        if (
            change.old.mode != change.new.mode
            or change.new.mode in {GITLINK, SYMLINK}
            or old is None
            or new is None
        ):
            return False
        if _is_binary(old) or _is_binary(new) or _inked(old) != _inked(new):
            return False
    return bool(changes)


def _inked(data: bytes) -> list[bytes]:
    return [line.rstrip() for line in data.split(b"\n") if line.strip()]
