"""Mirrors in and results out: real git over HTTP against the simulated GitHub."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from app.domain.errors import Denied, Gone, Refused, RetryAt
from app.domain.ports import RepoRef
from tests.github.conftest import Stage

BRANCH = "feature/1-count"


def git(folder: Path, *args: str) -> str:
    identity = ("-c", "user.name=Issuewright", "-c", "user.email=bot@example.org")
    done = subprocess.run(["git", *identity, *args], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def next_commit(mirror: Path, on: str, path: str = "new.txt") -> str:
    """A commit with one more file, made without a work tree."""
    blob = subprocess.run(
        ["git", "hash-object", "-w", "--stdin"], cwd=mirror, input=b"new\n", capture_output=True, check=True
    )
    listed = git(mirror, "ls-tree", on)
    lines = f"{listed}\n100644 blob {blob.stdout.decode().strip()}\t{path}\n"
    tree = subprocess.run(
        ["git", "mktree"], cwd=mirror, input=lines.encode(), capture_output=True, check=True
    )
    return git(mirror, "commit-tree", tree.stdout.decode().strip(), "-p", on, "-m", "Add a file")


async def started(stage: Stage, folder: Path) -> tuple[Path, str]:
    """A mirror, and the start commit of our branch in it."""
    start = await stage.gateway.ensure_start_commit(stage.repo, stage.head(), "Start")
    assert await stage.gateway.ensure_branch(stage.repo, BRANCH, start)
    mirror = folder / "mirror.git"
    await stage.gateway.fetch_mirror(stage.repo, mirror)
    return mirror, start


async def test_mirror_has_all_branches_and_no_trace_of_the_token(stage: Stage, tmp_path: Path) -> None:
    mirror, start = await started(stage, tmp_path)
    assert git(mirror, "rev-parse", BRANCH) == start
    assert git(mirror, "rev-parse", "main") == stage.head()
    stage.github.push(stage.name, "carol", "main", {"later.txt": "x\n"})
    await stage.gateway.fetch_mirror(stage.repo, mirror)
    assert git(mirror, "rev-parse", "main") == stage.head()
    for file in mirror.rglob("*"):
        assert not file.is_file() or b"ghs_" not in file.read_bytes()


async def test_push_moves_the_branch_once_and_says_so_twice(stage: Stage, tmp_path: Path) -> None:
    mirror, start = await started(stage, tmp_path)
    sha = next_commit(mirror, start)
    for _ in range(2):
        assert await stage.gateway.ensure_pushed(stage.repo, mirror, sha, BRANCH, start) == sha
    assert stage.head(BRANCH) == sha


async def test_push_applied_but_answered_502_is_seen_to_have_happened(stage: Stage, tmp_path: Path) -> None:
    mirror, start = await started(stage, tmp_path)
    sha = next_commit(mirror, start)
    stage.github.add_fault(method="POST", path="git-receive-pack$", status=502, apply=True, times=1)
    with suppress(RetryAt):
        await stage.gateway.ensure_pushed(stage.repo, mirror, sha, BRANCH, start)
    assert await stage.gateway.ensure_pushed(stage.repo, mirror, sha, BRANCH, start) == sha
    assert stage.head(BRANCH) == sha


async def test_push_onto_somebody_elses_commit_is_refused_as_moved(stage: Stage, tmp_path: Path) -> None:
    mirror, start = await started(stage, tmp_path)
    sha = next_commit(mirror, start)
    stage.github.push(stage.name, "carol", BRANCH, {"hers.txt": "x\n"})
    theirs = stage.head(BRANCH)
    with pytest.raises(Refused) as refused:
        await stage.gateway.ensure_pushed(stage.repo, mirror, sha, BRANCH, start)
    assert refused.value.code == "moved"
    assert stage.head(BRANCH) == theirs


async def test_push_to_a_protected_branch_is_refused_with_githubs_words(stage: Stage, tmp_path: Path) -> None:
    mirror, start = await started(stage, tmp_path)
    sha = next_commit(mirror, start)
    stage.github.protect(stage.name, BRANCH, "ruleset")
    with pytest.raises(Refused) as refused:
        await stage.gateway.ensure_pushed(stage.repo, mirror, sha, BRANCH, start)
    assert refused.value.code == "protected"
    assert "GH013" in str(refused.value)
    assert "ghs_" not in str(refused.value)


async def test_token_that_expired_before_the_push_is_replaced(stage: Stage, tmp_path: Path) -> None:
    mirror, start = await started(stage, tmp_path)
    first = next_commit(mirror, start)
    await stage.gateway.ensure_pushed(stage.repo, mirror, first, BRANCH, start)
    stage.github.revoke_tokens()
    second = next_commit(mirror, first, "second.txt")
    assert await stage.gateway.ensure_pushed(stage.repo, mirror, second, BRANCH, first) == second


async def test_renamed_repository_is_fetched_and_pushed_to(stage: Stage, tmp_path: Path) -> None:
    mirror, start = await started(stage, tmp_path)
    sha = next_commit(mirror, start)
    stage.github.rename_repo(stage.name, "alice", f"{stage.repo.name}-renamed")
    await stage.gateway.fetch_mirror(stage.repo, mirror)
    assert await stage.gateway.ensure_pushed(stage.repo, mirror, sha, BRANCH, start) == sha


async def test_mirror_of_an_empty_repository_says_that_it_is_empty(stage: Stage, tmp_path: Path) -> None:
    empty = await stage.add_repo(f"{stage.repo.name}-empty")
    with pytest.raises(Refused) as refused:
        await stage.gateway.fetch_mirror(empty, tmp_path / "mirror.git")
    assert refused.value.code == "empty_repository"


async def test_mirror_of_a_repository_that_was_deleted_is_gone(stage: Stage, tmp_path: Path) -> None:
    await stage.gateway.fetch_repository(stage.repo)
    stage.github.delete_repo(stage.name, "alice")
    with pytest.raises(Gone):
        await stage.gateway.fetch_mirror(stage.repo, tmp_path / "mirror.git")


async def test_repository_outside_the_installation_is_not_reached(stage: Stage, tmp_path: Path) -> None:
    made = stage.github.create_repo("bob", f"secret{stage.repo.name}", {"a": "a"})
    foreign = RepoRef(stage.repo.installation_id, made["id"], "bob", f"secret{stage.repo.name}")
    with pytest.raises((Denied, Gone)):
        await stage.gateway.fetch_mirror(foreign, tmp_path / "mirror.git")
