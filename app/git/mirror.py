"""Bare copies of repositories on this host: one per repository, branches only, nothing of the credential kept.

Sandboxes' work trees are cloned from it, results borrow its objects. Everything here may be killed at any moment
and run again: a new copy is made aside and renamed into place, and each call first removes what a dead one left.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal

from app.domain.errors import IssuewrightError
from app.git.command import Caps, GitFailed, GitTimedOut, run_git, run_git_capped
from app.git.remote import RemoteFailure, classify_failure, on_remote, readable_message

MirrorKind = Literal["denied", "gone", "empty", "retry"]

_BRANCHES = "+refs/heads/*:refs/heads/*"
_CAPS = Caps(file_bytes=20_000_000_000, cpu_s=3600, memory_bytes=8_000_000_000)
_MANY_PACKS = 30
_DAMAGE = re.compile(
    r"not a git repository|bad object|corrupt|loose object|unable to read (sha1|tree)|missing blob"
    r"|did not send all necessary objects|is far too short|pack has bad|invalid object|broken",
    re.IGNORECASE,
)


class MirrorFailed(IssuewrightError):
    """The mirror could not be brought up to date. `kind`: `denied` (credential or permission), `gone` (no such
    repository for us), `empty` (it has no branch yet), `retry` (network, server, time). The message may be shown.
    """

    def __init__(self, kind: MirrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


async def update_mirror(path: Path, url: str, token: str, *, timeout_s: float = 300) -> None:
    """Make the bare repository at `path` hold exactly the branches (`refs/heads/*`) of `url`.

    One caller at a time per mirror, across processes: others wait for their turn within their own `timeout_s`.
    Objects are never removed, so commits that were once there stay readable. Raises MirrorFailed.
    """
    await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
    try:
        async with asyncio.timeout(timeout_s), _turn(path):
            await asyncio.to_thread(_remove_residue, path)
            await on_remote(url, token, lambda address, env: _update(path, address, env, timeout_s))
            heads = await run_git("for-each-ref", "--count=1", "refs/heads/", git_dir=path)
    except TimeoutError:
        raise MirrorFailed("retry", f"no end after {timeout_s:g} s") from None
    except GitFailed as error:
        failure = classify_failure(error)
        kind: MirrorKind = "retry"
        if failure is RemoteFailure.DENIED:
            kind = "denied"
        elif failure is RemoteFailure.GONE:
            kind = "gone"
        raise MirrorFailed(kind, readable_message(error.stderr, token)) from None
    if not heads.strip():
        raise MirrorFailed("empty", "the repository has no branch yet")


async def _update(path: Path, url: str, env: Mapping[str, str], timeout_s: float) -> None:
    if await _is_repository(path):
        try:
            await _fetch(path, url, env, timeout_s)
        except GitFailed as error:
            if not _DAMAGE.search(error.stderr):
                raise
        else:
            await _tidy(path)
            return
    await _clone(path, url, env, timeout_s)


async def _is_repository(path: Path) -> bool:
    try:
        return (await run_git("rev-parse", "--is-bare-repository", git_dir=path)).strip() == b"true"
    except (GitFailed, FileNotFoundError, NotADirectoryError):
        return False


async def _clone(path: Path, url: str, env: Mapping[str, str], timeout_s: float) -> None:
    """Build the mirror aside and rename it into place: at `path` there is a whole mirror or none."""
    fresh = path.with_name(f"{_residue_prefix(path)}{secrets.token_hex(8)}")
    try:
        await asyncio.to_thread(fresh.mkdir)
        await run_git("init", "--quiet", "--bare", git_dir=fresh)
        await _fetch(fresh, url, env, timeout_s)
        await asyncio.to_thread(_put_in_place, fresh, path)
    finally:
        await asyncio.to_thread(shutil.rmtree, fresh, ignore_errors=True)


async def _fetch(git_dir: Path, url: str, env: Mapping[str, str], timeout_s: float) -> None:
    await run_git_capped(
        "fetch", "--quiet", "--prune", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance",
        "--no-recurse-submodules", "--end-of-options", url, _BRANCHES,
        git_dir=git_dir, caps=_CAPS, timeout_s=timeout_s, extra_env=env,
    )  # fmt: skip


async def _tidy(path: Path) -> None:
    """Join the small packs that fetches leave; nothing is dropped. Best effort: the next fetch tries again."""
    packs = await asyncio.to_thread(lambda: len(list((path / "objects" / "pack").glob("*.pack"))))
    if packs > _MANY_PACKS:
        with suppress(GitTimedOut):
            await run_git("repack", "--geometric=2", "-d", "--quiet", git_dir=path, timeout_s=60)


@asynccontextmanager
async def _turn(path: Path) -> AsyncIterator[None]:
    """Hold the mirror's lock: one that the operating system lets go of when its holder dies."""
    descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(0.1)
        yield
    finally:
        os.close(descriptor)


def _residue_prefix(path: Path) -> str:
    return f".tmp-{path.name}-"


def _put_in_place(fresh: Path, path: Path) -> None:
    if path.exists():
        aside = path.with_name(f"{_residue_prefix(path)}{secrets.token_hex(8)}")
        path.rename(aside)
        fresh.rename(path)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        fresh.rename(path)


def _remove_residue(path: Path) -> None:
    """What killed calls left: half-made copies, git's lock files and unfinished packs. Only under the lock."""
    for leftover in path.parent.glob(f"{_residue_prefix(path)}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for pattern in (
        "*.lock",
        "refs/**/*.lock",
        "objects/pack/tmp_*",
        "objects/pack/.tmp-*",
        "objects/??/tmp_obj_*",
    ):
        for leftover in path.glob(pattern):
            leftover.unlink(missing_ok=True)
