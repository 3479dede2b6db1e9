"""Where the cached mirrors of repositories stand on this host."""

from __future__ import annotations

from pathlib import Path

from app.git.command import GitFailed, run_git
from worker.parts import Parts


def mirror_path(parts: Parts, repo_id: int) -> Path:
    """One bare mirror per repository id: names change, ids do not."""
    return parts.home / "mirrors" / f"{repo_id}.git"


async def has_commit(mirror: Path, sha: str) -> bool:
    if not (mirror / "HEAD").exists():
        return False
    try:
        await run_git("cat-file", "-e", f"{sha}^{{commit}}", git_dir=mirror)
    except GitFailed:
        return False
    return True


async def find_branch_head(mirror: Path, branch: str) -> str | None:
    """Where that branch stood at the last fetch; None when there was none of that name."""
    if not (mirror / "HEAD").exists():
        return None
    try:
        output = await run_git(
            "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}", git_dir=mirror
        )
    except GitFailed:
        return None
    return output.decode("ascii").strip()


async def uses_lfs(mirror: Path, sha: str) -> bool:
    """Whether the root's .gitattributes (where `git lfs track` writes) keeps files in Git LFS at that commit: the agent
    sees those as pointers only.
    """
    try:
        await run_git(
            "grep",
            "--quiet",
            "--fixed-strings",
            "-e",
            "filter=lfs",
            sha,
            "--",
            ".gitattributes",
            git_dir=mirror,
        )
    except GitFailed as failed:
        if failed.returncode == 1:
            return False
        raise
    return True
