"""Makes a sandbox's work tree from the host's mirror: an ordinary clone that shares nothing with it.

Git runs disarmed (`app.git.command`), so neither the operator's configuration nor a filter that is missing here (LFS)
has a say: what the repository's own attributes ask for is done, a filter they merely name is not.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from app.git.command import FILE_PROTOCOL, GitFailed, run_git

_CLONE_S = 1800.0
_CHECKOUT_S = 600.0


async def make_work_tree(mirror: Path, work: Path, branch: str, start_sha: str) -> None:
    """`work` becomes a repository on `branch` at `start_sha`, checked out; other branches stand as
    refs/remotes/origin/*, without a remote to fetch from. `work` may exist, empty. Raises GitFailed.
    """
    await _clone(mirror, work)
    git_dir = work / ".git"
    await _drop_remotes(git_dir)
    await run_git("update-ref", f"refs/heads/{branch}", start_sha, git_dir=git_dir)
    await run_git("symbolic-ref", "HEAD", f"refs/heads/{branch}", git_dir=git_dir)
    await run_git("reset", "--quiet", "--hard", start_sha, cwd=work, timeout_s=_CHECKOUT_S)
    # A clone that was given a template directory brings sample hooks; ours was not, and it stays so.
    shutil.rmtree(git_dir / "hooks", ignore_errors=True)
    (git_dir / "hooks").mkdir()


async def _clone(mirror: Path, work: Path) -> None:
    arguments = ("clone", "--quiet", "--no-hardlinks", "--no-checkout", "--no-tags", "--template=", "--")
    for last in (False, True):
        try:
            await run_git(
                *arguments,
                str(mirror),
                str(work),
                cwd=work.parent,
                timeout_s=_CLONE_S,
                extra_env=FILE_PROTOCOL,
            )
        except GitFailed:
            # A mirror that is repacked meanwhile loses a file under the copy: the second try sees the new pack.
            if last:
                raise
            _empty(work)
        else:
            return


def _empty(directory: Path) -> None:
    for left in directory.iterdir():
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()


async def _drop_remotes(git_dir: Path) -> None:
    with suppress(GitFailed):  # 1 when there is no such key
        names = await run_git(
            "config", "--local", "--name-only", "-z", "--get-regexp", r"^(remote|branch)\.", git_dir=git_dir
        )
        sections = {name.rpartition(".")[0] for name in names.decode().split("\0") if name}
        for section in sorted(sections):
            await run_git("config", "--local", "--remove-section", section, git_dir=git_dir)
