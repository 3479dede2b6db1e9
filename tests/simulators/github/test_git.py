"""Real git against the simulated GitHub."""

import os
import subprocess
from pathlib import Path

import pytest

from simulators.github.git import clean_environment
from tests.simulators.github.conftest import REPO, Stage


def git(where: Path, *args: str) -> subprocess.CompletedProcess[str]:
    identity = ["-c", "user.name=Bob", "-c", "user.email=bob@example.com"]
    env = clean_environment()
    return subprocess.run(
        ["git", *identity, *args], cwd=where, env=env, capture_output=True, text=True, check=False
    )


def clone(stage: Stage, tmp_path: Path, permissions: dict[str, str] | None = None) -> Path:
    work = tmp_path / "work"
    done = git(tmp_path, "clone", "--quiet", stage.remote(permissions), str(work))
    assert done.returncode == 0, done.stderr
    return work


def commit(work: Path, branch: str, path: str, content: str) -> None:
    git(work, "checkout", "-q", "-B", branch)
    (work / path).parent.mkdir(parents=True, exist_ok=True)
    (work / path).write_text(content)
    git(work, "add", "-A")
    done = git(work, "commit", "-q", "-m", f"Add {path}")
    assert done.returncode == 0, done.stderr


def test_push_when_allowed_then_refs_and_events_follow(stage: Stage, tmp_path: Path) -> None:
    work = clone(stage, tmp_path)
    commit(work, "feature/1-x", "new.txt", "new\n")
    done = git(work, "push", "origin", "feature/1-x")
    assert done.returncode == 0, done.stderr
    sha = git(work, "rev-parse", "HEAD").stdout.strip()
    with stage.client() as http:
        ref = http.get(f"/repos/{REPO}/git/ref/heads/feature/1-x").json()
    assert ref["object"]["sha"] == sha
    push = stage.wait(lambda: stage.receiver.events("push"))[0]
    assert (push["ref"], push["after"], push["created"]) == ("refs/heads/feature/1-x", sha, True)
    assert push["commits"][0]["added"] == ["new.txt"]
    assert push["sender"]["login"] == "issuewright[bot]"
    created = stage.wait(lambda: stage.receiver.events("create"))[0]
    assert (created["ref"], created["ref_type"]) == ("feature/1-x", "branch")


def test_push_when_a_pull_request_has_the_branch_then_its_head_moves(stage: Stage, tmp_path: Path) -> None:
    number = stage.pull()
    before = stage.head("feature/1-x")
    work = clone(stage, tmp_path)
    git(work, "checkout", "-q", "feature/1-x")
    commit(work, "feature/1-x", "more.txt", "more\n")
    assert git(work, "push", "origin", "feature/1-x").returncode == 0
    after = git(work, "rev-parse", "HEAD").stdout.strip()
    event = stage.wait(lambda: stage.receiver.events("pull_request", "synchronize"))[0]
    assert (event["before"], event["after"]) == (before, after)
    assert stage.control.issue(REPO, number)["pull"]["head"]["sha"] == after
    assert stage.control.refs(REPO)[f"refs/pull/{number}/head"] == after


def test_push_when_large_and_chunked_then_arrives(stage: Stage, tmp_path: Path) -> None:
    work = clone(stage, tmp_path)
    git(work, "checkout", "-q", "-b", "big")
    (work / "big.bin").write_bytes(os.urandom(3_000_000))
    git(work, "add", "-A")
    git(work, "commit", "-q", "-m", "Big")
    assert git(work, "push", "origin", "big").returncode == 0
    assert stage.head("big") == git(work, "rev-parse", "HEAD").stdout.strip()


@pytest.mark.parametrize("args", [["--force"], []])
def test_push_when_not_forward_then_refused(stage: Stage, tmp_path: Path, args: list[str]) -> None:
    stage.pull()
    work = clone(stage, tmp_path)
    commit(work, "feature/1-x", "other.txt", "other\n")
    done = git(work, "push", *args, "origin", "feature/1-x")
    assert done.returncode != 0
    assert "rejected" in done.stderr


def test_push_when_workflow_file_without_permission_then_refused(stage: Stage, tmp_path: Path) -> None:
    work = clone(stage, tmp_path)
    commit(work, "feature/1-x", ".github/workflows/ci.yml", "on: push\n")
    done = git(work, "push", "origin", "feature/1-x")
    assert done.returncode != 0
    assert "refusing to allow a GitHub App to create or update workflow" in done.stderr
    allowed = stage.remote({"contents": "write", "workflows": "write"})
    assert git(work, "push", allowed, "feature/1-x").returncode == 0


def test_push_when_a_branch_has_the_workflow_file_already_then_arrives(stage: Stage, tmp_path: Path) -> None:
    stage.control.push(REPO, "alice", "other", {".github/workflows/ci.yml": "on: push\n"})
    work = clone(stage, tmp_path)
    commit(work, "feature/1-x", ".github/workflows/ci.yml", "on: push\n")
    assert git(work, "push", "origin", "feature/1-x").returncode == 0
    commit(work, "feature/1-x", ".github/workflows/ci.yml", "on: never\n")
    assert git(work, "push", "origin", "feature/1-x").returncode != 0


def test_branch_is_updated_then_it_has_what_its_base_got(stage: Stage, tmp_path: Path) -> None:
    number = stage.pull()
    stage.control.push(REPO, "alice", "main", {"base.txt": "new\n"})
    stage.control.update_branch(REPO, number, "alice")
    work = clone(stage, tmp_path)
    assert git(work, "merge-base", "--is-ancestor", "origin/main", "origin/feature/1-x").returncode == 0
    assert git(work, "show", "origin/feature/1-x:new.txt").stdout == "new\n"


@pytest.mark.parametrize(
    ("rule", "code"), [("pull_request", "GH006"), ("signatures", "GH006"), ("ruleset", "GH013")]
)
def test_push_when_branch_is_protected_then_refused(
    stage: Stage, tmp_path: Path, rule: str, code: str
) -> None:
    stage.control.protect(REPO, "main", rule)
    work = clone(stage, tmp_path)
    commit(work, "main", "new.txt", "new\n")
    done = git(work, "push", "origin", "main")
    assert done.returncode != 0
    assert code in done.stderr


def test_push_when_it_holds_a_secret_then_refused(stage: Stage, tmp_path: Path) -> None:
    stage.control.push_protection(["sk-planted-secret"])
    work = clone(stage, tmp_path)
    commit(work, "feature/1-x", "config.py", "KEY = 'sk-planted-secret'\n")
    done = git(work, "push", "origin", "feature/1-x")
    assert done.returncode != 0
    assert "GH013" in done.stderr


def test_access_when_token_can_only_read_then_clone_but_no_push(stage: Stage, tmp_path: Path) -> None:
    work = clone(stage, tmp_path, {"contents": "read"})
    commit(work, "feature/1-x", "new.txt", "new\n")
    assert "403" in git(work, "push", "origin", "feature/1-x").stderr


def test_access_when_token_is_wrong_expired_or_absent_then_refused(stage: Stage, tmp_path: Path) -> None:
    wrong = f"{stage.url.replace('://', '://x-access-token:ghs_wrong@')}/{REPO}.git"
    assert "Authentication failed" in git(tmp_path, "ls-remote", wrong).stderr
    assert git(tmp_path, "ls-remote", f"{stage.url}/{REPO}.git").returncode != 0
    remote = stage.remote()
    assert git(tmp_path, "ls-remote", remote).returncode == 0
    stage.control.advance_clock(3700)
    assert "Authentication failed" in git(tmp_path, "ls-remote", remote).stderr


def test_access_when_repository_is_public_then_anybody_clones(stage: Stage, tmp_path: Path) -> None:
    stage.control.set_private(REPO, "alice", private=False)
    assert git(tmp_path, "clone", "-q", f"{stage.url}/{REPO}.git", "copy").returncode == 0
    assert (tmp_path / "copy" / "README.md").read_text() == "# Demo\n"


def test_push_when_another_repository_then_not_found(stage: Stage, tmp_path: Path) -> None:
    stage.control.create_repo("bob", "private", {"a": "b"})
    done = git(tmp_path, "ls-remote", stage.remote(repo="bob/private"))
    assert "not found" in done.stderr


def test_first_push_when_repository_was_empty_then_default_branch_is_set(
    stage: Stage, tmp_path: Path
) -> None:
    stage.control.create_repo("alice", "empty")
    with stage.client() as http:
        assert http.get("/repos/alice/empty/git/ref/heads/main").status_code == 409
        assert http.get("/repos/alice/empty/contents/README.md").status_code == 404
    git(tmp_path, "init", "-q", "-b", "trunk", "fresh")
    commit(tmp_path / "fresh", "trunk", "a.txt", "a\n")
    done = git(tmp_path / "fresh", "push", stage.remote(repo="alice/empty"), "trunk")
    assert done.returncode == 0, done.stderr
    assert stage.control.repo("alice/empty")["default_branch"] == "trunk"
