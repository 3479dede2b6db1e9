"""From a sandbox's bundle to plain facts for `app.domain.result_policy`: the only reader of results."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.domain.errors import ResultRefused
from app.domain.result_policy import (
    ABSENT,
    GITLINK,
    ChangedEntry,
    CommitFacts,
    NewBlob,
    ResultFacts,
    ResultLimits,
    is_oversize,
)
from app.git.command import GitFailed, GitOutputTooLarge, run_git_capped
from app.git.objects import (
    READ_CAPS,
    ObjectInfo,
    RawChange,
    fetch_infos,
    list_changes,
    parse_commit,
    read_objects,
    text_of,
)
from app.git.quarantine import Expected, make_quarantine, unpack_bundle
from app.git.result_content import NewContent, with_contents
from sandbox_payload.wire import Manifest

__all__ = ["Expected", "open_result"]

_MAX_COMMITS_BYTES = 10_000_000
_MAX_LISTING_BYTES = 30_000_000


@dataclass(frozen=True)
class _Judged:
    """The commits under judgement: what `head` has beyond the start, the base and the mirror's branches."""

    git_dir: Path
    start: str
    known_base: str
    head: str

    @property
    def revisions(self) -> tuple[str, ...]:
        return (self.head, "--not", self.start, self.known_base, "--alternate-refs")


async def open_result(
    bundle: Path | None,
    manifest: Manifest | None,
    *,
    expected: Expected,
    mirror: Path,
    quarantine: Path,
    limits: ResultLimits,
) -> ResultFacts:
    """Facts about what `bundle` brings, which stands in the bare repository `quarantine` afterwards.

    `manifest` None: a checkpoint, which has none. `bundle` None: only right when nothing was done. `quarantine` is
    made anew, so a call may be repeated; it borrows the mirror's objects and must go before the mirror does.
    Raises ResultRefused for what can't be read as a result at all: `corrupt_bundle`, `bundle_missing`, `wrong_refs`,
    `manifest_mismatch`, `unknown_prerequisite`, `unknown_start`, `not_descendant`, `too_large`, `too_many_files`.
    """
    start = expected.start_sha
    if manifest is not None and manifest.start_sha != start:
        raise ResultRefused("manifest_mismatch", "the result starts from another commit than was handed in")
    await make_quarantine(quarantine, mirror, expected)
    if manifest is not None and manifest.head_sha == start:
        return ResultFacts(start, start, start, same_tree=True)
    if bundle is None:
        raise ResultRefused("bundle_missing", "there is no bundle with the new head")
    try:
        head = await unpack_bundle(bundle, manifest, quarantine, limits)
        return await _collect(_Judged(quarantine, start, expected.base_sha or start, head), limits)
    except GitOutputTooLarge:
        raise ResultRefused("too_many_files", "the result lists more than can be read") from None
    except GitFailed as error:
        raise ResultRefused(
            "corrupt_bundle", f"the result can't be read: {error.stderr.strip()[:200]}"
        ) from None


async def _collect(judged: _Judged, limits: ResultLimits) -> ResultFacts:
    await _check_descent(judged)
    base = await _merge_base(judged)
    commits = await _list_commits(judged, limits)
    changes = await list_changes(judged.git_dir, base, judged.head, _MAX_LISTING_BYTES)
    since_start = await list_changes(judged.git_dir, judged.start, judged.head, _MAX_LISTING_BYTES)
    own = {change.path for change in since_start}
    objects = await _list_new_objects(judged)
    present = [change.new.sha for change in changes if change.new.mode not in {ABSENT, GITLINK}]
    infos = await fetch_infos(judged.git_dir, [*objects, *present])
    if any(sha not in infos for sha in (*objects, *present)):
        raise ResultRefused("corrupt_bundle", "objects of the result are missing")
    content = NewContent(
        paths={sha: path for sha, path in objects.items() if infos[sha].kind == "blob"},
        changes=tuple(changes),
        infos=infos,
    )
    facts = ResultFacts(
        start_sha=judged.start,
        head_sha=judged.head,
        base_sha=base,
        same_tree=await _have_same_tree(judged),
        entries=tuple(_entry(change, infos, own) for change in changes),
        blobs=tuple(NewBlob(path, infos[sha].size) for sha, path in content.paths.items()),
        commits=commits,
    )
    if is_oversize(facts, limits):
        return facts
    return await with_contents(judged.git_dir, facts, content)


def _entry(change: RawChange, infos: Mapping[str, ObjectInfo], own: Collection[str]) -> ChangedEntry:
    """`own`: the paths that differ from the start."""
    size = infos[change.new.sha].size if change.new.sha in infos else 0
    return ChangedEntry(change.path, change.old.mode, change.new.mode, size, in_start=change.path not in own)


async def _check_descent(judged: _Judged) -> None:
    try:
        await _ask(judged, "merge-base", "--is-ancestor", "--end-of-options", judged.start, judged.head)
    except GitFailed as error:
        if error.returncode != 1:
            raise
        detail = f"the history was rewritten: {judged.head[:12]} does not continue {judged.start[:12]}"
        raise ResultRefused("not_descendant", detail) from None


async def _merge_base(judged: _Judged) -> str:
    """Of the base as it stands now and the result; the start when they have nothing in common."""
    try:
        return await _ask(judged, "merge-base", "--end-of-options", judged.known_base, judged.head)
    except GitFailed as error:
        if error.returncode != 1:
            raise
        return judged.start


async def _have_same_tree(judged: _Judged) -> bool:
    trees = await _ask(judged, "rev-parse", f"{judged.start}^{{tree}}", f"{judged.head}^{{tree}}")
    first, second = trees.split()
    return first == second


async def _list_commits(judged: _Judged, limits: ResultLimits) -> tuple[CommitFacts, ...]:
    """New commits, newest first, one more than allowed at most."""
    output = await _ask(judged, "rev-list", f"--max-count={limits.max_commits + 1}", *judged.revisions)
    contents = await _read_commits(judged.git_dir, output.split())
    facts = []
    for sha, raw in contents.items():
        try:
            commit = parse_commit(sha, raw)
        except ValueError as error:
            raise ResultRefused("corrupt_bundle", str(error)) from None
        facts.append(
            CommitFacts(sha, commit.parents, commit.author.decode("utf-8", "replace"), commit.message)
        )
    return tuple(facts)


async def _read_commits(git_dir: Path, shas: Sequence[str]) -> dict[str, bytes]:
    try:
        return await read_objects(git_dir, shas, _MAX_COMMITS_BYTES)
    except GitOutputTooLarge:
        raise ResultRefused("too_large", "the commit messages are larger than allowed") from None


async def _list_new_objects(judged: _Judged) -> dict[str, str]:
    """Every tree and file content that some new commit brings, by id, with the path it was first seen at."""
    output = await run_git_capped(
        "rev-list", "--objects", *judged.revisions,
        git_dir=judged.git_dir, caps=READ_CAPS, limit_bytes=_MAX_LISTING_BYTES,
    )  # fmt: skip
    objects = {}
    for line in output.split(b"\n"):
        sha, separator, path = line.partition(b" ")
        if separator:
            objects[sha.decode("ascii")] = text_of(path)
    return objects


async def _ask(judged: _Judged, *args: str) -> str:
    output = await run_git_capped(*args, git_dir=judged.git_dir, caps=READ_CAPS)
    return output.decode("utf-8", "replace").strip()
