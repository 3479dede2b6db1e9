"""The directory of one local sandbox, the only record of it: whoever opens it on this host knows all there is to know.

spare.json     it was made before anybody asked: for orders of this size
order.json     what was asked for (never the token), written before the directory gets its name
inputs/ token  what the payload reads; read-only inside
payload/ etc/  the packed payload; the made-up system files
work/ state/ home/ tmp/   writable inside
log/           the payload's output, in segments named by their first byte's offset
keeper.lock    held by the keeper as long as it lives; keeper.pid, keeper.log beside it
cgroups.json   what was made for it elsewhere
started.json   the payload has its work; exit.json: all is over, with the exit code and why
stop           somebody asks for the end
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from app.domain.errors import Refused
from app.domain.ports import SandboxSight, SandboxStatus
from app.sandbox.order import KeeperOrder

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")

SETUP_FAILED = "setup_failed"


@dataclass(frozen=True)
class Ending:
    """How a sandbox ended. `exit_code` is the payload's, 128+n for a signal, None when it never ran.

    `reason` is empty when the payload ended by itself, else `stopped` (asked to, and it did), `killed` (asked to, and
    it did not), `memory`, `disk`, `processes`, `wall_clock`, `app_gone` or `setup_failed: …`.
    """

    exit_code: int | None
    reason: str
    at: str


@dataclass(frozen=True)
class Start:
    """`pid` is the outermost process of the payload."""

    pid: int
    at: datetime


@dataclass(frozen=True)
class StopRequest:
    grace_s: float


def check_name(name: str) -> str:
    """`name` when it is safe as one path component. Raises Refused otherwise."""
    if not _NAME.fullmatch(name):
        raise Refused(f"not a sandbox name: {name[:100]!r}", code="name")
    return name


def write_atomically(path: Path, data: bytes, mode: int = 0o600) -> None:
    """All or nothing, and on the disk when it returns."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb", closefd=True) as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise


def _now_text() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class StateDir:
    """One sandbox's directory. Nothing here blocks longer than a small file's fsync."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.inputs = path / "inputs"
        self.token = path / "token"
        self.payload = path / "payload"
        self.etc = path / "etc"
        self.work = path / "work"
        self.state = path / "state"
        self.home = path / "home"
        self.tmp = path / "tmp"
        self.log = path / "log"
        self.keeper_log = path / "keeper.log"

    @property
    def name(self) -> str:
        return self.path.name

    # ------------------------------------------------------------ what was asked for

    def write_order(self, order: KeeperOrder) -> None:
        write_atomically(self.path / "order.json", order.to_json())

    def read_order(self) -> KeeperOrder | None:
        """None when there is no such sandbox. Raises Refused when the file is not one of ours."""
        try:
            return KeeperOrder.from_json((self.path / "order.json").read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write_size(self, order: KeeperOrder) -> None:
        """Of a spare one: what its order will have to be like."""
        write_atomically(self.path / "spare.json", order.to_json())

    def read_size(self) -> KeeperOrder | None:
        try:
            return KeeperOrder.from_json((self.path / "spare.json").read_bytes())
        except FileNotFoundError:
            return None

    # ------------------------------------------------------------ the keeper

    def open_lock(self, *, wait_s: float = 0) -> int | None:
        """Take the keeper's lock; a descriptor that holds it until it is closed, None when another keeper has it.

        A look at the lock by `keeper_lives` holds it for an instant, which `wait_s` sits out.
        """
        descriptor = os.open(self.path / "keeper.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        end = monotonic() + wait_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if monotonic() >= end:
                    os.close(descriptor)
                    return None
                sleep(0.02)
            else:
                return descriptor

    def keeper_lives(self) -> bool:
        try:
            descriptor = os.open(self.path / "keeper.lock", os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def write_keeper_pid(self, pid: int) -> None:
        write_atomically(self.path / "keeper.pid", str(pid).encode())

    def read_keeper_pid(self) -> int | None:
        """The process that is or was the keeper; None when none ever took the lock."""
        try:
            return int((self.path / "keeper.pid").read_text())
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None

    def read_keeper_log(self) -> str:
        """The last that the keeper itself said; it says nothing as long as all goes well."""
        try:
            return self.keeper_log.read_bytes()[-1000:].decode("utf-8", "replace").strip()
        except FileNotFoundError:
            return ""

    # ------------------------------------------------------------ what became of it

    def write_cgroups(self, cgroups: tuple[Path, ...]) -> None:
        """What was made for it outside of this directory."""
        write_atomically(self.path / "cgroups.json", json.dumps([str(group) for group in cgroups]).encode())

    def read_cgroups(self) -> tuple[Path, ...]:
        return tuple(Path(group) for group in self._read_json("cgroups.json") or ())

    def write_started(self, pid: int) -> None:
        facts = {"pid": pid, "at": _now_text()}
        write_atomically(self.path / "started.json", json.dumps(facts).encode())

    def read_started(self) -> Start | None:
        facts = self._read_json("started.json")
        if facts is None:
            return None
        return Start(int(facts["pid"]), datetime.fromisoformat(str(facts["at"])))

    def write_ending(self, exit_code: int | None, reason: str) -> None:
        ending = Ending(exit_code, reason[:2000], _now_text())
        write_atomically(self.path / "exit.json", json.dumps(asdict(ending)).encode())

    def read_ending(self) -> Ending | None:
        facts = self._read_json("exit.json")
        return None if facts is None else Ending(facts["exit_code"], facts["reason"], facts["at"])

    def write_stop(self, grace_s: float) -> None:
        """Ask for the end. Of two requests the shorter grace counts; a gone sandbox needs no asking."""
        asked = self.read_stop()
        if asked is not None and asked.grace_s <= grace_s:
            return
        with suppress(FileNotFoundError, NotADirectoryError):
            write_atomically(self.path / "stop", json.dumps({"grace_s": grace_s}).encode())

    def read_stop(self) -> StopRequest | None:
        facts = self._read_json("stop")
        return None if facts is None else StopRequest(float(facts["grace_s"]))

    def _read_json(self, name: str) -> Any:
        """None when there is no such file."""
        try:
            return json.loads((self.path / name).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None

    def read_sight(self) -> SandboxSight:
        """What a look from outside sees. The lock is asked before exit.json, since a keeper writes that one first."""
        try:
            order = self.read_order()
        except Refused as error:
            return SandboxSight(self.name, SandboxStatus.ERROR, detail=str(error))
        if order is None:
            return SandboxSight(self.name, SandboxStatus.ABSENT)
        lives = self.keeper_lives()
        ending, started = self.read_ending(), self.read_started()
        status, exit_code, detail = _decide_status(ending, lives=lives, started=started is not None)
        if status is SandboxStatus.CREATING and not lives and self.read_keeper_pid() is not None:
            status, detail = SandboxStatus.ERROR, "its keeper died before the payload started"
        labels: Mapping[str, str] = order.labels
        return SandboxSight(self.name, status, exit_code, detail, labels, started.at if started else None)


def _decide_status(
    ending: Ending | None, *, lives: bool, started: bool
) -> tuple[SandboxStatus, int | None, str]:
    if ending is not None:
        failed = ending.reason.startswith(SETUP_FAILED)
        return (SandboxStatus.ERROR if failed else SandboxStatus.EXITED), ending.exit_code, ending.reason
    if not started:
        return SandboxStatus.CREATING, None, ""
    if lives:
        return SandboxStatus.RUNNING, None, ""
    return SandboxStatus.ERROR, None, "its keeper died, and everything inside with it"
