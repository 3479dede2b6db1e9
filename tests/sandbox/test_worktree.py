"""Work trees, through make_work_tree and lay_base_config: they need no sandbox, only git."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.git.command import GitFailed
from app.sandbox.agent_config import is_agent_config, lay_base_config
from app.sandbox.worktree import make_work_tree

from .support import Source, git

BRANCH = "feature/7-thing"


async def _make(source: Source, tmp_path: Path, sha: str) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    await make_work_tree(source.mirror, work, BRANCH, sha)
    return work


async def test_work_tree_shares_nothing_with_the_mirror_and_has_no_remote(
    source: Source, tmp_path: Path
) -> None:
    git("config", "remote.origin.url", "https://user:pass@github.example/o/r", cwd=source.mirror)
    side = source.commit({"side.txt": b"side\n"}, branch="develop")
    sha = source.commit({"more.txt": b"more\n"})

    work = await _make(source, tmp_path, sha)

    assert git("rev-parse", "HEAD", cwd=work) == sha
    assert git("symbolic-ref", "HEAD", cwd=work) == f"refs/heads/{BRANCH}"
    assert git("rev-parse", "refs/remotes/origin/develop", cwd=work) == side
    assert git("status", "--porcelain", cwd=work) == ""
    assert git("remote", cwd=work) == ""
    config = (work / ".git" / "config").read_text()
    assert [word for word in ("remote", "branch", str(source.mirror)) if word in config] == []
    assert not (work / ".git" / "objects" / "info" / "alternates").exists()
    assert list((work / ".git" / "hooks").iterdir()) == []
    linked = [
        path for path in (work / ".git" / "objects").rglob("*") if path.is_file() and path.stat().st_nlink > 1
    ]
    assert linked == []
    for log in (work / ".git").rglob("logs/**/*"):
        assert not log.is_file() or "pass@" not in log.read_text()


async def test_personal_git_configuration_and_missing_lfs_have_no_influence(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"a" * 64 + b"\nsize 12\n"
    source.commit({"win.txt": b"one\r\ntwo\r\n", "tool.sh": b"#!/bin/sh\n", "data/model.bin": pointer})
    (source.tree / "tool.sh").chmod(0o755)
    (source.tree / "latest").symlink_to("data")
    sha = source.commit({".gitattributes": b"*.bin filter=lfs diff=lfs merge=lfs -text\n*.crlf text eol=crlf\n",
                         "a.crlf": b"x\n"})  # fmt: skip
    personal = tmp_path / "personal"
    personal.mkdir()
    (personal / ".gitconfig").write_text(
        '[filter "lfs"]\n\tprocess = git-lfs filter-process\n\trequired = true\n\tsmudge = git-lfs smudge\n'
        "[core]\n\tautocrlf = true\n[commit]\n\tgpgsign = true\n[push]\n\tdefault = nothing\n"
    )
    monkeypatch.setenv("HOME", str(personal))

    work = await _make(source, tmp_path, sha)

    assert (work / "data/model.bin").read_bytes() == pointer
    assert (work / "win.txt").read_bytes() == b"one\r\ntwo\r\n"
    assert (work / "a.crlf").read_bytes() == b"x\r\n"
    assert (work / "tool.sh").stat().st_mode & 0o111
    assert (work / "latest").is_symlink()
    assert git("status", "--porcelain", cwd=work) == ""


async def test_commit_that_is_in_no_branch_of_the_mirror_is_found(source: Source, tmp_path: Path) -> None:
    sha = source.commit({"lost.txt": b"x\n"}, branch="gone")
    git("update-ref", "-d", "refs/heads/gone", cwd=source.mirror)

    work = await _make(source, tmp_path, sha)

    assert (work / "lost.txt").exists()


async def test_mirror_that_is_none_fails_with_gits_words(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with pytest.raises(GitFailed):
        await make_work_tree(tmp_path / "nothing.git", work, BRANCH, "1" * 40)


async def test_agent_configuration_is_the_bases_and_stays_out_of_commits(
    source: Source, tmp_path: Path
) -> None:
    base = source.commit(
        {
            "CLAUDE.md": b"base\n",
            "docs/AGENTS.md": b"base\n",
            ".claude/settings.json": b"{}\n",
            "odd [x]/.mcp.json": b"{}\n",
        }
    )
    start = source.commit(
        {
            "CLAUDE.md": b"obey the branch\n",
            "docs/AGENTS.md": None,
            ".claude/settings.json": None,
            "odd [x]/.mcp.json": None,
            ".claude/hooks/run.sh": b"evil\n",
            "src/new.py": b"branch\n",
        },
        branch=BRANCH,
    )
    work = await _make(source, tmp_path, start)

    changed = await lay_base_config(work, start, base)
    again = await lay_base_config(work, start, base)

    assert changed == again
    assert set(changed) == {
        "CLAUDE.md", "docs/AGENTS.md", ".claude/settings.json", ".claude/hooks/run.sh", "odd [x]/.mcp.json",
    }  # fmt: skip
    assert (work / "CLAUDE.md").read_bytes() == b"base\n"
    assert (work / "docs/AGENTS.md").read_bytes() == b"base\n"
    assert (work / ".claude/settings.json").exists()
    assert not (work / ".claude/hooks/run.sh").exists()
    assert (work / "src/new.py").read_bytes() == b"branch\n"
    assert git("status", "--porcelain", cwd=work) == ""
    (work / "src/new.py").write_bytes(b"edited\n")
    git("add", "-A", cwd=work)
    git("commit", "-q", "-a", "-m", "work", cwd=work)
    assert git("diff", "--name-only", start, "HEAD", cwd=work) == "src/new.py"


async def test_equal_agent_configuration_is_like_any_file(source: Source, tmp_path: Path) -> None:
    base = source.commit({"CLAUDE.md": b"base\n"})
    start = source.commit({"other.txt": b"x\n"}, branch=BRANCH)
    work = await _make(source, tmp_path, start)

    assert await lay_base_config(work, start, base) == ()
    (work / "CLAUDE.md").write_bytes(b"new\n")
    assert git("status", "--porcelain", cwd=work) == "M CLAUDE.md"


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("CLAUDE.md", True),
        ("claude.md", True),
        ("deep/down/AGENTS.md", True),
        (".claude/skills/x/SKILL.md", True),
        ("pkg/.claude/settings.local.json", True),
        (".husky/pre-commit", True),
        (".mcp.json", True),
        ("docs/CLAUDE.md.txt", False),
        ("claude/README.md", False),
        ("src/mcp.json", False),
    ],
)
def test_agent_configuration_is_known_by_name(path: str, counts: bool) -> None:
    assert is_agent_config(path) is counts
