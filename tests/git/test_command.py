"""git on the host, disarmed."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from app.git.command import (
    FILE_PROTOCOL,
    Caps,
    GitFailed,
    GitOutputTooLarge,
    GitTimedOut,
    run_git,
    run_git_capped,
)
from tests.git.crafting import FileLike, make_repository


async def test_operators_configuration_has_no_influence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".gitconfig").write_text(
        '[filter "lfs"]\n\tprocess = git-lfs filter-process\n\trequired = true\n[commit]\n\tgpgsign = true\n'
        "[core]\n\tautocrlf = true\n[alias]\n\tversion2 = version\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    repository = make_repository(tmp_path / "r.git")
    pointer = b"version https://git-lfs.github.com/spec/v1\r\noid sha256:0\r\n"
    files: dict[str | bytes, FileLike] = {
        ".gitattributes": b"*.bin filter=lfs -text\n",
        "m.bin": pointer,
        "w.txt": b"a\r\nb\r\n",
    }
    repository.branch("main", repository.commit(files))
    await run_git("clone", "--quiet", str(repository.path), str(tmp_path / "tree"), extra_env=FILE_PROTOCOL)
    assert (tmp_path / "tree/m.bin").read_bytes() == pointer
    assert (tmp_path / "tree/w.txt").read_bytes() == b"a\r\nb\r\n"
    assert await run_git("status", "--porcelain", cwd=tmp_path / "tree") == b""
    (tmp_path / "tree/w.txt").write_bytes(b"c\r\n")
    identity = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    await run_git("commit", "--quiet", "-am", "x", cwd=tmp_path / "tree", extra_env=identity)
    assert await run_git("cat-file", "blob", "HEAD:w.txt", cwd=tmp_path / "tree") == b"c\r\n"
    with pytest.raises(GitFailed):
        await run_git("version2")


async def test_path_of_this_host_is_reached_only_when_asked(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "r.git")
    repository.branch("main", repository.commit({"a": b"a"}))
    with pytest.raises(GitFailed, match="not allowed"):
        await run_git("ls-remote", str(repository.path))
    assert b"refs/heads/main" in await run_git("ls-remote", str(repository.path), extra_env=FILE_PROTOCOL)


async def test_git_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    with pytest.raises(GitTimedOut):
        await run_git("-c", f"alias.wait=!echo $$ >{tmp_path}/pid; exec sleep 60", "wait", timeout_s=1)
    await gone(int((tmp_path / "pid").read_text()))


async def test_cancelled_git_is_killed_with_its_children(tmp_path: Path) -> None:
    task = asyncio.ensure_future(run_git("-c", f"alias.wait=!echo $$ >{tmp_path}/pid; exec sleep 60", "wait"))
    async with asyncio.timeout(10):
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone(int((tmp_path / "pid").read_text()))


async def test_git_cancelled_while_it_is_being_started_is_killed_with_its_children(tmp_path: Path) -> None:
    (tmp_path / "pid").touch()
    alias = f"alias.wait=!echo $$ >{tmp_path}/pid; exec sleep 60"
    task = asyncio.ensure_future(run_git("-c", alias, "wait"))
    for _ in range(3):
        await asyncio.sleep(0)
    deadline = time.monotonic() + 10
    while not (written := (tmp_path / "pid").read_text().strip()) and time.monotonic() < deadline:
        time.sleep(0.01)  # git runs, and the loop has not got round to its pipes yet
    task.cancel()
    async with asyncio.timeout(10):
        with pytest.raises(asyncio.CancelledError):
            await task
    await gone(int(written))


async def gone(pid: int) -> None:
    async with asyncio.timeout(5):
        while Path(f"/proc/{pid}").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text():
            await asyncio.sleep(0.01)


async def test_output_over_the_limit_ends_git_and_keeps_what_was_allowed() -> None:
    with pytest.raises(GitOutputTooLarge) as caught:
        await run_git("version", limit_bytes=5)
    assert caught.value.stdout == b"git v"


async def test_failure_carries_code_and_words() -> None:
    with pytest.raises(GitFailed) as caught:
        await run_git("rev-parse", "HEAD")
    assert caught.value.returncode == 128
    assert "not a git repository" in caught.value.stderr


async def test_large_input_to_a_git_that_does_not_read_it_is_no_hang(tmp_path: Path) -> None:
    assert (await run_git("version", stdin=b"x" * 5_000_000)).startswith(b"git version")


async def test_capped_git_can_not_write_past_its_limit(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "r.git")
    data = os.urandom(200_000)
    with pytest.raises(GitFailed):
        await run_git_capped(
            "hash-object", "-w", "--stdin", git_dir=repository.path, caps=Caps(file_bytes=50_000), stdin=data
        )
    stored = await run_git_capped(
        "hash-object", "-w", "--stdin", git_dir=repository.path, caps=Caps(file_bytes=500_000), stdin=data
    )
    assert len(stored.strip()) == 40
