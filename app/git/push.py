"""Delivers a checked result to its branch: a plain fast-forward, or nothing.

Never a force, never a deletion, never another ref. GitHub's own refusal of anything but a fast-forward is the atomic
part; looking first, and again after a failure, makes the call safe to repeat.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from app.domain.errors import IssuewrightError
from app.git.command import GitFailed, run_git
from app.git.remote import RemoteFailure, classify_failure, on_remote, readable_message

PushCode = Literal["moved", "protected", "workflow", "secret", "denied", "retry", "rejected"]

_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_LOOK_S = 30
_PUSH_S = 300

_SIGNS: tuple[tuple[PushCode, re.Pattern[str]], ...] = (
    ("workflow", re.compile(r"refusing to allow .* workflow", re.IGNORECASE)),
    # Push protection reports under the code of rule violations, so it is looked for first.
    (
        "secret",
        re.compile(r"push cannot contain secrets|GITHUB PUSH PROTECTION|secret-scanning", re.IGNORECASE),
    ),
    (
        "protected",
        re.compile(r"GH006|GH013|protected branch|rule violations", re.IGNORECASE),
    ),
    (
        "moved",
        re.compile(
            r"\[rejected\]|non-fast-forward|fetch first|stale info|cannot lock ref|failed to update ref|reference already",
            re.IGNORECASE,
        ),
    ),
)


class PushRejected(IssuewrightError):
    """The branch was not changed. `message` is the server's, redacted, and may be shown.

    `code`: `moved` (the branch stands elsewhere or is gone), `protected` (branch rules), `workflow` (needs the
    workflows permission), `secret` (GitHub's push protection), `denied`, `retry` (network, server), `rejected` (rest).
    """

    def __init__(self, message: str, code: PushCode) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


async def push(  # the six things a push is made of
    git_dir: Path, url: str, sha: str, branch: str, expected_sha: str, token: str
) -> str:
    """Move `refs/heads/BRANCH` at `url` from `expected_sha` to its descendant `sha`; returns where it stands then.

    A branch that stands on `sha` already is a success. Raises PushRejected; ValueError for a name or id that is none.
    """
    await _check_arguments(sha, branch, expected_sha)
    ref = f"refs/heads/{branch}"
    try:
        current = await _look(url, ref, token)
        if current == sha:
            return sha
        await _check_forward(git_dir, branch, current, expected_sha, sha)
        await on_remote(url, token, lambda address, env: _send(git_dir, address, f"{sha}:{ref}", env))
    except GitFailed as error:
        # The answer may have been lost after the push was applied.
        if await _stands_on(url, ref, token, sha):
            return sha
        raise _rejection(error, token) from None
    return sha


async def _check_arguments(sha: str, branch: str, expected_sha: str) -> None:
    if not _SHA.fullmatch(sha) or not _SHA.fullmatch(expected_sha):
        raise ValueError("push needs two full commit ids")
    try:
        await run_git("check-ref-format", f"refs/heads/{branch}")
    except GitFailed:
        raise ValueError(f"not a branch name: {branch!r}") from None


async def _look(url: str, ref: str, token: str) -> str | None:
    """The id that `ref` has at the remote; None when it is not there."""
    answer = await on_remote(
        url,
        token,
        lambda address, env: run_git(
            "ls-remote",
            "--quiet",
            "--refs",
            "--end-of-options",
            address,
            ref,
            timeout_s=_LOOK_S,
            extra_env=env,
        ),
    )
    for line in answer.decode("utf-8", "replace").splitlines():
        found, _, name = line.partition("\t")
        # ls-remote matches from the end: `x/refs/heads/b` would come along.
        if name == ref:
            return found
    return None


async def _stands_on(url: str, ref: str, token: str, sha: str) -> bool:
    try:
        return await _look(url, ref, token) == sha
    except GitFailed:
        return False


async def _check_forward(
    git_dir: Path, branch: str, current: str | None, expected_sha: str, sha: str
) -> None:
    if current is None:
        raise PushRejected(f"the branch {branch} is gone", "moved")
    if current != expected_sha:
        raise PushRejected(
            f"the branch {branch} stands on {current[:12]}, not on {expected_sha[:12]}", "moved"
        )
    try:
        await run_git("merge-base", "--is-ancestor", "--end-of-options", expected_sha, sha, git_dir=git_dir)
    except GitFailed:
        raise PushRejected(f"{sha[:12]} does not continue {expected_sha[:12]}", "rejected") from None


async def _send(git_dir: Path, url: str, refspec: str, env: Mapping[str, str]) -> None:
    await run_git(
        "push", "--no-progress", "--no-verify", "--no-follow-tags", "--no-signed", "--no-force",
        "--no-force-with-lease", "--recurse-submodules=no", "--end-of-options", url, refspec,
        git_dir=git_dir, timeout_s=_PUSH_S, extra_env=env,
    )  # fmt: skip


def _rejection(error: GitFailed, token: str) -> PushRejected:
    message = readable_message(error.stderr, token)
    for code, pattern in _SIGNS:
        if pattern.search(error.stderr):
            return PushRejected(message, code)
    by_failure: dict[RemoteFailure, PushCode] = {
        RemoteFailure.DENIED: "denied",
        RemoteFailure.GONE: "denied",
        RemoteFailure.RETRY: "retry",
        RemoteFailure.OTHER: "rejected",
    }
    return PushRejected(message, by_failure[classify_failure(error)])
