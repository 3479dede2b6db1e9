"""The text of a result's changes, to be read by people when nothing is pushed."""

from __future__ import annotations

from pathlib import Path

from app.domain.secrets_scan import redact
from app.git.command import GitOutputTooLarge, run_git_capped
from app.git.objects import READ_CAPS


async def render_patch(git_dir: Path, start: str, head: str, limit_bytes: int) -> tuple[str, bool]:
    """Unified diff of two commits of at most `limit_bytes`, cut after a whole line, and whether it was cut.

    Binary files are named only, bytes that are no UTF-8 are replaced, what looks like a credential is redacted. No
    program, filter or text conversion of the repository takes part. Raises GitFailed.
    """
    truncated = False
    try:
        output = await run_git_capped(
            "diff-tree", "-r", "-p", "--no-commit-id", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv",
            "--ignore-submodules=none", "--end-of-options", start, head,
            git_dir=git_dir, caps=READ_CAPS, limit_bytes=limit_bytes,
        )  # fmt: skip
    except GitOutputTooLarge as error:
        output = error.stdout[: error.stdout.rfind(b"\n") + 1]
        truncated = True
    return redact(output.decode("utf-8", "replace")), truncated


async def list_changed_paths(git_dir: Path, start: str, head: str, limit: int) -> tuple[str, ...]:
    """The first `limit` paths that differ between two commits, in git's order. Raises GitFailed."""
    output = await run_git_capped(
        "diff-tree", "-r", "-z", "--name-only", "--no-commit-id", "--no-renames", "--end-of-options", start, head,
        git_dir=git_dir, caps=READ_CAPS, limit_bytes=10_000_000,
    )  # fmt: skip
    return tuple(path.decode("utf-8", "replace") for path in output.split(b"\0") if path)[:limit]
