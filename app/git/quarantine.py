"""Takes a sandbox's bundle apart in a throw-away bare repository that borrows the mirror's objects.

git never sees the sandbox's own repository: the header is checked here, the pack alone goes to `index-pack`, with
every object checked, under limits of bytes, time and memory.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from app.domain.errors import ResultRefused
from app.domain.result_policy import ResultLimits
from app.git.bundle_header import BundleHeader, digest, open_handed_over, read_header
from app.git.command import Caps, GitFailed, GitTimedOut, run_git, run_git_capped
from app.git.objects import fetch_infos
from sandbox_payload.wire import RESULT_REF, Manifest

BASE_REF = "refs/issuewright/base"
_UNPACK_S = 120


@dataclass(frozen=True)
class Expected:
    """What the app itself recorded: the commit every result descends from, and where the base branch stands now.

    `base_sha` None: judged against `start_sha` alone.
    """

    start_sha: str
    base_sha: str | None = None


async def make_quarantine(quarantine: Path, mirror: Path, expected: Expected) -> None:
    """A fresh bare repository at `quarantine`, in place of whatever a dead attempt left there."""
    await asyncio.to_thread(_clear, quarantine)
    await run_git("init", "--quiet", "--bare", git_dir=quarantine)
    await asyncio.to_thread(_borrow_objects, quarantine, mirror)
    known = await fetch_infos(quarantine, filter(None, (expected.start_sha, expected.base_sha)))
    for sha in filter(None, (expected.start_sha, expected.base_sha)):
        if sha not in known or known[sha].kind != "commit":
            raise ResultRefused("unknown_start", f"the mirror has no commit {sha[:12]}")
    await run_git("update-ref", BASE_REF, expected.base_sha or expected.start_sha, git_dir=quarantine)


async def unpack_bundle(
    bundle: Path, manifest: Manifest | None, quarantine: Path, limits: ResultLimits
) -> str:
    """Bring the bundle's objects into the quarantine; returns the head's id, which is a commit there.

    Raises ResultRefused: `corrupt_bundle`, `wrong_refs`, `manifest_mismatch`, `unknown_prerequisite`, `too_large`.
    """
    with open_handed_over(bundle, limits.max_bundle_bytes) as descriptor:
        if manifest is not None and await asyncio.to_thread(digest, descriptor) != manifest.bundle_sha256:
            raise ResultRefused("manifest_mismatch", "the bundle is not the one that its manifest describes")
        header = read_header(descriptor)
        head = _check_refs(header, manifest)
        await _check_prerequisites(header, quarantine)
        os.lseek(descriptor, header.pack_offset, os.SEEK_SET)
        await _index(descriptor, quarantine, limits)
    infos = await fetch_infos(quarantine, [head])
    if head not in infos or infos[head].kind != "commit":
        raise ResultRefused("corrupt_bundle", "the bundle's head is not in it, or is no commit")
    await run_git("update-ref", RESULT_REF, head, git_dir=quarantine)
    return head


def _check_refs(header: BundleHeader, manifest: Manifest | None) -> str:
    if len(header.refs) != 1 or header.refs[0][0] != RESULT_REF:
        raise ResultRefused("wrong_refs", f"the bundle must carry {RESULT_REF} and nothing else")
    head = header.refs[0][1]
    if manifest is not None and head != manifest.head_sha:
        raise ResultRefused("manifest_mismatch", "bundle and manifest name different heads")
    return head


async def _check_prerequisites(header: BundleHeader, quarantine: Path) -> None:
    known = await fetch_infos(quarantine, header.prerequisites)
    for sha in header.prerequisites:
        if sha not in known or known[sha].kind != "commit":
            raise ResultRefused(
                "unknown_prerequisite", f"the bundle builds on {sha[:12]}, which nobody knows"
            )


async def _index(descriptor: int, quarantine: Path, limits: ResultLimits) -> None:
    caps = Caps(file_bytes=4 * limits.max_bundle_bytes, cpu_s=_UNPACK_S)
    try:
        await run_git_capped(
            "index-pack", "--stdin", "--fix-thin", "--strict", f"--max-input-size={limits.max_bundle_bytes}",
            git_dir=quarantine, caps=caps, stdin=descriptor, timeout_s=_UNPACK_S,
        )  # fmt: skip
    except GitTimedOut:
        raise ResultRefused("too_large", f"the bundle could not be unpacked in {_UNPACK_S} s") from None
    except GitFailed as error:
        if error.returncode < 0 or "out of memory" in error.stderr or "maximum allowed size" in error.stderr:
            raise ResultRefused(
                "too_large", "the bundle needs more memory, time or space than allowed"
            ) from None
        raise ResultRefused("corrupt_bundle", _complaint(error)) from None


def _complaint(error: GitFailed) -> str:
    lines = [line for line in error.stderr.splitlines() if line.startswith(("error:", "fatal:", "remote:"))]
    text = "".join(character for character in "; ".join(lines) if character.isprintable())
    return f"git refuses the bundle's objects: {text[:300]}"


def _borrow_objects(quarantine: Path, mirror: Path) -> None:
    directory = quarantine / "objects" / "info"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "alternates").write_text(f"{mirror.absolute() / 'objects'}\n")


def _clear(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
    path.mkdir(parents=True)
