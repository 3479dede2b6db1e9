"""Runs the host's git disarmed: nothing of the operator, the machine or a repository decides what it executes.

The environment is built from nothing (rule R6): no system or personal configuration, no hooks, attributes, filters,
credential helpers, pagers or prompts, no replaced objects, no transport but HTTP(S) unless `FILE_PROTOCOL` is passed.
A repository's own configuration file is read by git nevertheless, so `git_dir` and `cwd` must be repositories this
program made; a stranger's objects are data, a stranger's repository directory never is.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from app.domain.errors import IssuewrightError, SettingsError

FILE_PROTOCOL: Mapping[str, str] = {"GIT_ALLOW_PROTOCOL": "file"}
"""`extra_env` of a command that may fetch from or clone a path of this host (and nothing else)."""

_STDERR_BYTES = 16_384
_CHUNK_BYTES = 65_536
_UNDER_LIMITS = 'ulimit -c 0 && ulimit -f "$1" && ulimit -t "$2" && ulimit -d "$3" && shift 3 && exec "$@"'
"""POSIX's `ulimit`: blocks of 512 bytes, seconds, KiB. A program of its own sets them: between fork and exec of a process
with threads that can hang, from outside it comes too late for the first children; and a shell starts in a millisecond.
"""

_ENVIRONMENT: Mapping[str, str] = {
    # A directory that can't exist: no ~/.gitconfig, ~/.netrc, ~/.ssh, ~/.config/git.
    "HOME": os.devnull,
    "XDG_CONFIG_HOME": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GIT_ALLOW_PROTOCOL": "http:https",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_MERGE_AUTOEDIT": "no",
    "GIT_EDITOR": "false",
    "GIT_ADVICE": "0",
    "LC_ALL": "C",
    "TZ": "UTC",
}

_SETTINGS: Mapping[str, str] = {
    "core.hooksPath": os.devnull,
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.fsmonitor": "false",
    "core.sshCommand": "false",
    "core.askPass": "",
    "core.pager": "cat",
    "core.editor": "false",
    "core.autocrlf": "false",
    "core.quotePath": "true",
    "credential.helper": "",
    "color.ui": "false",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "gc.auto": "0",
    "gc.autoDetach": "false",
    "maintenance.auto": "false",
    "init.templateDir": "",
    "init.defaultBranch": "main",
    "fetch.recurseSubmodules": "false",
    "push.recurseSubmodules": "no",
    "submodule.recurse": "false",
    "fetch.writeCommitGraph": "false",
    "log.showSignature": "false",
    "push.default": "nothing",
    "push.followTags": "false",
    "pack.threads": "1",
    "safe.bareRepository": "explicit",
}


class GitFailed(IssuewrightError):
    """git ended with `returncode` (negative: killed by that signal); `stderr` is the end of what it said, `stdout` what
    it had written.

    None holds a credential of ours, but they may quote a server's or a repository's bytes.
    """

    def __init__(self, returncode: int, stderr: str, stdout: bytes = b"") -> None:
        super().__init__(f"git ended with {returncode}: {stderr.strip()[-500:]}")
        self.returncode = returncode
        self.stderr = stderr
        self.stdout = stdout


class GitTimedOut(GitFailed):
    """git was killed because its time was up."""


class GitOutputTooLarge(GitFailed):
    """git was killed because it wrote more to its standard output than allowed; `stdout` is what was allowed."""

    def __init__(self, stdout: bytes) -> None:
        super().__init__(-signal.SIGKILL, f"more than {len(stdout)} bytes of output", stdout)


@dataclass(frozen=True)
class Caps:
    """Limits of a git process that reads a stranger's bytes: one file it writes, its CPU time, its memory."""

    file_bytes: int
    cpu_s: int = 60
    memory_bytes: int = 2_000_000_000


@dataclass(frozen=True)
class _Call:
    argv: list[str]
    env: dict[str, str]
    cwd: Path
    stdin: bytes | int | None
    timeout_s: float
    limit_bytes: int


async def run_git(
    *args: str,
    cwd: Path | None = None,
    git_dir: Path | None = None,
    stdin: bytes | None = None,
    timeout_s: float = 20,
    limit_bytes: int = 50_000_000,
    extra_env: Mapping[str, str] | None = None,
) -> bytes:
    """Standard output of `git ARGS`, disarmed.

    `git_dir` names a bare repository (or a `.git`); without it git looks for one at `cwd`, and without both there is
    none. Paths among ARGS are taken literally (no glob, no pathspec magic). `extra_env` wins over the built-in environment. The whole process group is killed on timeout, too much
    output and cancellation. Raises GitFailed, GitTimedOut, GitOutputTooLarge; SettingsError when there is no git.
    """
    argv = [_git(), *_options(git_dir), *args]
    call = _Call(argv, _environment(extra_env), cwd or git_dir or Path("/"), stdin, timeout_s, limit_bytes)
    return await _run(call)


async def run_git_capped(
    *args: str,
    git_dir: Path,
    caps: Caps,
    stdin: bytes | int | None = None,
    timeout_s: float = 60,
    limit_bytes: int = 50_000_000,
    extra_env: Mapping[str, str] | None = None,
) -> bytes:
    """Like `run_git`, for commands that unpack or walk a stranger's objects: under `caps` as well.

    `stdin` may be an open file descriptor, read from where it stands.
    """
    argv = ["/bin/sh", "-c", _UNDER_LIMITS, "sh", *_limits(caps), _git(), *_options(git_dir), *args]
    return await _run(_Call(argv, _environment(extra_env), git_dir, stdin, timeout_s, limit_bytes))


def _limits(caps: Caps) -> list[str]:
    """As `ulimit` takes them, and no higher than this process may go itself: that raises nothing."""
    wanted = (
        (resource.RLIMIT_FSIZE, caps.file_bytes, 512),
        (resource.RLIMIT_CPU, caps.cpu_s, 1),
        # Not the address space: git maps whole packs, and those are the mirror's, not the stranger's.
        (resource.RLIMIT_DATA, caps.memory_bytes, 1024),
    )
    found = []
    for kind, limit, unit in wanted:
        _, hard = resource.getrlimit(kind)
        found.append(str((limit if hard == resource.RLIM_INFINITY else min(limit, hard)) // unit))
    return found


@cache
def _git() -> str:
    found = shutil.which("git")
    if found is None:
        raise SettingsError("git was not found on PATH: install git 2.39 or newer")
    return found


def _options(git_dir: Path | None) -> list[str]:
    options = ["--no-pager", "--literal-pathspecs"]
    for key, value in _SETTINGS.items():
        options += ["-c", f"{key}={value}"]
    if git_dir is not None:
        options.append(f"--git-dir={git_dir.absolute()}")
    return options


def _environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    path = os.pathsep.join((str(Path(_git()).parent), os.defpath))
    return {"PATH": path, **_ENVIRONMENT, **(extra or {})}


async def _run(call: _Call) -> bytes:
    stdin = asyncio.subprocess.DEVNULL
    if call.stdin is not None:
        stdin = call.stdin if isinstance(call.stdin, int) else asyncio.subprocess.PIPE
    process = await _start(call, stdin)
    try:
        async with asyncio.timeout(call.timeout_s):
            stdout, stderr = await _converse(process, call)
            returncode = await process.wait()
    except TimeoutError:
        await _kill(process)
        raise GitTimedOut(-signal.SIGKILL, f"no end after {call.timeout_s:g} s") from None
    except BaseException:
        await _kill(process)
        raise
    if returncode != 0:
        raise GitFailed(returncode, stderr.decode("utf-8", "replace"), stdout)
    return stdout


async def _start(call: _Call, stdin: int) -> asyncio.subprocess.Process:
    """Cancelled halfway, asyncio would kill git alone and wait for its children, who hold its pipes, to end."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *call.argv,
            cwd=call.cwd,
            env=call.env,
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _kill(await starting)
        raise


async def _converse(process: asyncio.subprocess.Process, call: _Call) -> tuple[bytes, bytes]:
    if process.stdout is None or process.stderr is None:
        raise RuntimeError("git was started without pipes")
    tasks = [
        asyncio.ensure_future(_read(process.stdout, call.limit_bytes)),
        asyncio.ensure_future(_read_tail(process.stderr)),
    ]
    if isinstance(call.stdin, bytes) and process.stdin is not None:
        tasks.append(asyncio.ensure_future(_write(process.stdin, call.stdin)))
    try:
        stdout, stderr, *_ = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return stdout, stderr


async def _read(stream: asyncio.StreamReader, limit_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while chunk := await stream.read(_CHUNK_BYTES):
        size += len(chunk)
        chunks.append(chunk)
        if size > limit_bytes:
            raise GitOutputTooLarge(b"".join(chunks)[:limit_bytes])
    return b"".join(chunks)


async def _read_tail(stream: asyncio.StreamReader) -> bytes:
    tail = b""
    while chunk := await stream.read(_CHUNK_BYTES):
        tail = (tail + chunk)[-_STDERR_BYTES:]
    return tail


async def _write(stream: asyncio.StreamWriter, data: bytes) -> bytes:
    # A git that has seen enough closes its end early; its exit code tells whether that was right.
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.write(data)
        await stream.drain()
    stream.close()
    with suppress(BrokenPipeError, ConnectionResetError):
        await stream.wait_closed()
    return b""


async def _kill(process: asyncio.subprocess.Process) -> None:
    """End the whole group, git's own children too, and collect the exit code."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await asyncio.shield(process.wait())
