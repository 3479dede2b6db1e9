"""What both local providers share: sandboxes as directories of this host, each owned by a keeper process.

Nothing is kept in memory. Any worker of this host that opens the same ISSUEWRIGHT_HOME finds every sandbox, whoever
made it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, sleep, time

from app.domain.errors import Refused, Unexpected
from app.domain.ports import SandboxOrder, SandboxSight, SandboxStatus
from app.domain.remote import Left
from app.domain.spare import SandboxSize
from app.sandbox.bundle import PayloadBundle, installed_payload, read_bundle
from app.sandbox.cgroup import remove_cgroups
from app.sandbox.keeper_start import start_keeper
from app.sandbox.local_left import copy_left
from app.sandbox.order import OF_NOBODY, Isolation, KeeperOrder, Pace
from app.sandbox.payload_log import read_log, read_log_start, read_log_tail
from app.sandbox.profile import write_made_up_files
from app.sandbox.spare import SPARE, Spare
from app.sandbox.state_dir import StateDir, check_name
from sandbox_payload.wire import ENVIRONMENT

_KEEPER_END_S = 5.0
_REMOVE_S = 10.0
_LEFTOVER_S = 600.0
_SOCKET_PATH_BYTES = 107
_PROVIDER_SETS = frozenset({"CALLBACK_URL", "ANTHROPIC_BASE_URL", "HTTPS_PROXY", "SANDBOX_TOKEN_FILE"})
_ALLOWED_ENVIRONMENT = frozenset(ENVIRONMENT) - _PROVIDER_SETS


@dataclass(frozen=True)
class LocalHost:
    """Where local sandboxes live. `home` is ISSUEWRIGHT_HOME; `socket_dir` (short, 0700, made once and kept) is where
    the web process puts gateway.sock and proxy.sock; `payload` is the package directory that is packed.
    """

    home: Path
    socket_dir: Path
    payload: Path = field(default_factory=installed_payload)
    pace: Pace = field(default_factory=Pace)


class LocalSandboxes:
    """The disk's side of `ports.Sandboxes`, and `remote.KeepsFiles`; subclasses say how the payload is isolated."""

    kind: str
    isolation: Isolation

    def __init__(self, host: LocalHost) -> None:
        self._host = host
        self._root = host.home / "sandboxes"
        longest = host.socket_dir / "gateway.sock"
        if len(os.fsencode(longest)) > _SOCKET_PATH_BYTES:
            raise ValueError(f"too long for a unix socket: {longest}")

    async def _bwrap(self) -> tuple[str, ...]:
        """The start of the isolating command line; empty for none. Raises Denied when it can't work here."""
        raise NotImplementedError

    async def ensure_created(self, order: SandboxOrder) -> SandboxSight:
        """Starts a keeper, which does everything that takes time. A sandbox that exists under the name is adopted as
        it is; one whose keeper never came to life gets one. Raises Refused, Denied, Unexpected.
        """
        bwrap = await self._bwrap()
        return await asyncio.to_thread(self._ensure_created, order, bwrap)

    async def fetch_sight(self, name: str) -> SandboxSight:
        return await asyncio.to_thread(self._directory(name).read_sight)

    async def ensure_stopped(self, name: str, grace_s: float) -> None:
        await asyncio.to_thread(self._ensure_stopped, self._directory(name), grace_s)

    async def ensure_deleted(self, name: str) -> None:
        await asyncio.to_thread(self._ensure_deleted, self._directory(name))

    async def list_owned(self) -> Sequence[SandboxSight]:
        return await asyncio.to_thread(self._list_owned)

    async def fetch_log(self, name: str, offset: int = 0, limit: int = 65536) -> bytes:
        """From the oldest byte that is kept when `offset` has been dropped."""
        return await asyncio.to_thread(read_log, self._directory(name).log, offset, limit)

    async def fetch_log_start(self, name: str) -> int:
        return await asyncio.to_thread(read_log_start, self._directory(name).log)

    async def fetch_log_tail(self, name: str, size: int) -> bytes:
        return await asyncio.to_thread(read_log_tail, self._directory(name).log, size)

    async def save_left(self, name: str, directory: Path) -> Left:
        """See `remote.KeepsFiles`."""
        try:
            return await asyncio.to_thread(copy_left, self._directory(name).state, directory)
        except OSError as error:
            raise Unexpected(f"what {name} left can't be copied: {error}") from error

    async def aclose(self) -> None:
        """Sandboxes and keepers stay: they belong to the host, not to this object."""

    # ------------------------------------------------------------ making

    def _directory(self, name: str) -> StateDir:
        return StateDir(self._root / check_name(name))

    def _ensure_created(self, order: SandboxOrder, bwrap: tuple[str, ...]) -> SandboxSight:
        directory = self._directory(order.name)
        ensure_private_directory(self._root)
        ensure_private_directory(self._host.socket_dir)
        if directory.read_order() is None:
            self._lay_out(order, bwrap, directory)
        self._ensure_keeper(directory)
        return directory.read_sight()

    def _lay_out(self, order: SandboxOrder, bwrap: tuple[str, ...], directory: StateDir) -> None:
        """Everything under a name of its own first: a directory with the sandbox's name is always complete."""
        bundle = read_bundle(self._host.payload)
        asked = _keeper_order(order, self._host, self.isolation, bwrap, bundle.digest)
        spare = self._take_spare(asked)
        new = spare.directory if spare is not None else self._lay_ground(f".new-{order.name}", bundle)
        try:
            for name, data in order.inputs.items():
                (new.inputs / check_name(name)).write_bytes(data)
            new.token.write_text(order.token)
            new.write_order(asked)
            # Of two that make the same sandbox at once, one renames first; the other finds a full directory there.
            with suppress(OSError):
                new.path.rename(directory.path)
                if spare is not None:
                    spare.hand_over(directory.name)
        finally:
            if spare is not None:
                spare.discard()
            elif new.path.exists():
                shutil.rmtree(new.path)
        if directory.read_order() is None:
            raise Unexpected(f"{directory.path} could not be made")

    def _lay_ground(self, prefix: str, bundle: PayloadBundle) -> StateDir:
        """What every sandbox has, whatever it is ordered for."""
        new = StateDir(self._root / f"{prefix}-{secrets.token_hex(4)}")
        new.path.mkdir(mode=0o700)
        try:
            for folder in (new.inputs, new.payload, new.etc, new.work, new.state, new.home, new.tmp, new.log):
                folder.mkdir(mode=0o700)
            new.token.touch(mode=0o600)
            bundle.write_to(new.payload)
            write_made_up_files(new.etc)
            # The tree is the agent's own, whatever user it was cloned as.
            (new.home / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
        except BaseException:
            shutil.rmtree(new.path)
            raise
        return new

    def _take_spare(self, _asked: KeeperOrder, /) -> Spare | None:
        """A sandbox that has been started already and fits; the caller's alone from now on."""
        return None

    def _ensure_keeper(self, directory: StateDir) -> None:
        if directory.read_keeper_pid() is not None or directory.keeper_lives():
            return
        start_keeper(directory)

    # ------------------------------------------------------------ ending

    def _ensure_stopped(self, directory: StateDir, grace_s: float) -> None:
        if not directory.path.exists() or directory.read_ending() is not None:
            return
        directory.write_stop(max(0.0, grace_s))
        if directory.read_keeper_pid() is None:
            # Never came to life: one does now, sees the request and writes the ending.
            self._ensure_keeper(directory)
        elif not directory.keeper_lives():
            self._kill_strays(directory)

    def _kill_strays(self, directory: StateDir) -> None:
        """What may be left of a sandbox whose keeper was killed. In a namespace: nothing."""

    def _ensure_deleted(self, directory: StateDir) -> None:
        if directory.path.exists():
            self._end_keeper(directory)
            self._kill_strays(directory)
            remove_cgroups(directory.read_cgroups())
            # From here on it is gone for everybody; what a crash leaves under this name goes with the next one.
            with suppress(FileNotFoundError):
                directory.path.rename(self._root / f".trash-{directory.name}-{secrets.token_hex(4)}")
        self._remove_leftovers()

    def _end_keeper(self, directory: StateDir) -> None:
        directory.write_stop(0)
        if _wait_for_end(directory, _KEEPER_END_S):
            return
        pid = directory.read_keeper_pid()
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not _wait_for_end(directory, _KEEPER_END_S):
            raise Unexpected(f"the keeper of {directory.name} (process {pid}) can't be ended")

    def _remove_leftovers(self) -> None:
        """What deletions, creations and probes left when they were killed, by programs that cope with any depth and
        with modes that were taken away. A tree too big for one go loses a part of itself each time.
        """
        if not self._root.is_dir():
            return
        old = time() - _LEFTOVER_S
        left = [str(path) for path in self._root.glob(".trash-*")]
        for pattern in (".new-*", ".probe-*", f"{SPARE}-*"):
            for path in self._root.glob(pattern):
                with suppress(FileNotFoundError):
                    if path.stat().st_mtime < old and not StateDir(path).keeper_lives():
                        remove_cgroups(StateDir(path).read_cgroups())
                        # Whoever has just found a use for it finds nothing rather than a part of it.
                        left.append(str(path.rename(self._root / f".trash-{path.name.lstrip('.')}")))
        end = monotonic() + _REMOVE_S
        for command in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]) if left else ():
            with suppress(subprocess.TimeoutExpired):
                limit_s = max(0.1, end - monotonic())
                subprocess.run([*command, "--", *left], check=False, capture_output=True, timeout=limit_s)

    def _list_owned(self) -> list[SandboxSight]:
        if not self._root.is_dir():
            return []
        names = sorted(path.name for path in self._root.iterdir() if not path.name.startswith("."))
        sights = [StateDir(self._root / name).read_sight() for name in names]
        return [sight for sight in sights if sight.status is not SandboxStatus.ABSENT]


def ensure_private_directory(path: Path) -> None:
    """Made 0700 when it is missing; left as it is when it is there."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def _wait_for_end(directory: StateDir, seconds: float) -> bool:
    end = monotonic() + seconds
    while directory.keeper_lives():
        if monotonic() >= end:
            return False
        sleep(0.02)
    return True


def order_of_size(
    host: LocalHost, size: SandboxSize, isolation: Isolation, bwrap: tuple[str, ...], digest: str
) -> KeeperOrder:
    """Of no sandbox in particular."""
    return KeeperOrder(
        **OF_NOBODY,
        memory_gb=size.memory_gb,
        cpu=size.cpu,
        disk_gb=size.disk_gb,
        time_limit_s=size.time_limit_s,
        allow_hosts=tuple(size.allow_hosts),
        isolation=isolation,
        socket_dir=str(host.socket_dir),
        payload_digest=digest,
        bwrap=bwrap,
        pace=host.pace,
    )


def _keeper_order(
    order: SandboxOrder, host: LocalHost, isolation: Isolation, bwrap: tuple[str, ...], digest: str
) -> KeeperOrder:
    foreign = sorted(set(order.environment) - _ALLOWED_ENVIRONMENT)
    if foreign:
        raise Refused(f"not part of a sandbox's environment: {', '.join(foreign)}", code="environment")
    size = SandboxSize(order.memory_gb, order.cpu, order.disk_gb, order.time_limit_s, order.allow_hosts)
    return replace(
        order_of_size(host, size, isolation, bwrap, digest),
        sandbox_id=order.sandbox_id,
        name=order.name,
        labels=dict(order.labels),
        environment=dict(order.environment),
        mirror=str(order.mirror),
        branch=order.branch,
        start_sha=order.start_sha,
        agent_config_sha=order.agent_config_sha,
    )
