"""Rule R5: the agent is configured by the base branch, not by the branch it works on.

Where the work branch's copy of such a file differs from the base's, the base's is laid into the work tree and hidden
from git: a tracked file gets the index's skip-worktree mark (so that commits keep the branch's own version), a file
that the branch does not have is excluded in .git/info/exclude. What the agent writes to such a file is therefore not
part of its result, and only there: where both copies are equal, nothing is done and the file is like any other.
Files that an agent configuration refers to by path or import are not followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from app.git.command import run_git

_FILES = frozenset({"claude.md", "claude.local.md", "agents.md", ".mcp.json", ".claude.json", ".ripgreprc"})
_DIRECTORIES = frozenset({".claude", ".husky"})
_ABSENT = "000000"


@dataclass(frozen=True)
class Difference:
    """One path whose object or mode differs. The flags say on which side it exists."""

    path: str
    in_branch: bool
    in_base: bool


def is_agent_config(path: str) -> bool:
    """Whether `path` (with /) configures an agent or its hooks, at any depth; names compare without case, since some
    file systems do.
    """
    parts = [part.casefold() for part in PurePosixPath(path).parts]
    return bool(parts) and (parts[-1] in _FILES or not _DIRECTORIES.isdisjoint(parts))


async def lay_base_config(work: Path, start_sha: str, base_sha: str) -> tuple[str, ...]:
    """Does what this module says to the checked-out `work`; the paths that now stand as in `base_sha`, sorted.

    Safe to call twice. Raises GitFailed when a commit is missing or a path can't be written.
    """
    if base_sha == start_sha:
        return ()
    raw = await run_git(
        "diff-tree",
        "-r",
        "-z",
        "--no-renames",
        "--raw",
        start_sha,
        base_sha,
        git_dir=work / ".git",
        timeout_s=60,
    )
    differences = [difference for difference in _parse(raw) if is_agent_config(difference.path)]
    if not differences:
        return ()
    await _write(work, base_sha, [item.path for item in differences if item.in_base])
    _remove(work, [item.path for item in differences if not item.in_base])
    tracked = [item.path for item in differences if item.in_branch]
    if tracked:
        await run_git(
            "update-index", "--skip-worktree", "-z", "--stdin", cwd=work, stdin=_zero_ended(tracked)
        )
    _exclude(work / ".git", [item.path for item in differences if not item.in_branch])
    return tuple(sorted(item.path for item in differences))


def _parse(raw: bytes) -> Iterator[Difference]:
    fields = raw.decode("utf-8", "surrogateescape").split("\0")
    for head, path in zip(fields[::2], fields[1::2], strict=False):
        mode_before, mode_after = head.lstrip(":").split(" ")[:2]
        yield Difference(path, in_branch=mode_before != _ABSENT, in_base=mode_after != _ABSENT)


async def _write(work: Path, base_sha: str, paths: list[str]) -> None:
    """The work tree alone, by git itself, which follows no link out of it."""
    if not paths:
        return
    await run_git(
        "restore",
        "--ignore-skip-worktree-bits",
        "--quiet",
        f"--source={base_sha}",
        "--worktree",
        "--pathspec-from-file=-",
        "--pathspec-file-nul",
        cwd=work,
        stdin=_zero_ended(paths),
        timeout_s=60,
    )


def _remove(work: Path, paths: list[str]) -> None:
    """What only the branch has. Git has just checked these paths out, so no directory of theirs is a link."""
    for path in paths:
        (work / path).unlink(missing_ok=True)
        for parent in PurePosixPath(path).parents:
            try:
                (work / parent).rmdir()
            except OSError:
                break


def _exclude(git_dir: Path, paths: list[str]) -> None:
    if not paths:
        return
    file = git_dir / "info" / "exclude"
    file.parent.mkdir(exist_ok=True)
    # A line can't hold a line end: such a path would stay visible, and the result's own checks see it.
    lines = [f"/{_literal(path)}\n" for path in paths if "\n" not in path]
    with file.open("a", encoding="utf-8", errors="surrogateescape") as out:
        out.writelines(lines)


def _literal(path: str) -> str:
    escaped = "".join(f"\\{character}" if character in "\\*?[" else character for character in path)
    return f"{escaped[:-1]}\\ " if escaped.endswith(" ") else escaped


def _zero_ended(paths: list[str]) -> bytes:
    return b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)
