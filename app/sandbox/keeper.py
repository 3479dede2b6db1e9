"""`python -m app.sandbox.keeper DIRECTORY`: owns one local sandbox from its order to its ending.

It takes the directory's lock, goes into the background (the command returns 0 as soon as that is done, also when
another keeper has the lock), starts the payload held, makes the work tree meanwhile, lets the payload go and watches
it, and writes exit.json last. It survives the worker; what it started does not survive it. A second keeper never takes
over a sandbox.

With `--spare`, DIRECTORY is a sandbox that nobody has ordered yet, and standard input a socket to whoever made it
(`app.sandbox.spare`): the payload is started, and the keeper waits to be told the name that the directory has got with
its order. When the other end closes instead, everything goes.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from app.domain.errors import IssuewrightError, Refused
from app.sandbox.agent_config import lay_base_config
from app.sandbox.cgroup import ran_out_of_memory, remove_cgroups
from app.sandbox.held_payload import HeldPayload
from app.sandbox.limits import become_subreaper
from app.sandbox.order import Isolation, KeeperOrder
from app.sandbox.payload_log import PayloadLog
from app.sandbox.process_table import find_eldest_child, list_descendants, read_table
from app.sandbox.state_dir import SETUP_FAILED, StateDir, check_name
from app.sandbox.watch import Verdict, watch_all, watch_stop
from app.sandbox.worktree import make_work_tree

_LOCK_WAIT_S = 2.0
_DRAIN_S = 2.0
_KILL_S = 30.0
_CHUNK_BYTES = 65_536
_KILLED = 128 + signal.SIGKILL
_NAME_BYTES = 200
TAKEN = b"taken\n"
"""What a spare keeper answers when it has taken its sandbox over."""


class Keeper:
    """One sandbox's life. `verdicts` collects what its watchers, signals and stop requests say, in order."""

    def __init__(self, directory: StateDir, order: KeeperOrder, held: HeldPayload | None = None) -> None:
        """`held`: the payload, when it has been started already."""
        self._directory = directory
        self._order = order
        self._held = held
        self._verdicts: asyncio.Queue[Verdict] = asyncio.Queue()
        self._log = PayloadLog(directory.log, order.pace.log_segment_bytes, order.pace.log_segments)

    async def keep(self) -> None:
        """Returns when everything inside has ended and exit.json is written."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(
                number, self._verdicts.put_nowait, Verdict("stopped", self._order.pace.grace_s)
            )
        stop = asyncio.ensure_future(watch_stop(self._directory, self._order, self._verdicts.put_nowait))
        try:
            exit_code, reason = await self._live()
        except (IssuewrightError, OSError) as error:
            exit_code, reason = None, f"{SETUP_FAILED}: {error}"
        finally:
            stop.cancel()
            self._log.close()
        self._directory.write_ending(exit_code, reason)

    async def _live(self) -> tuple[int | None, str]:
        held = self._held or await HeldPayload.start(self._order, self._directory)
        try:
            exit_code, reason = await self._run(held)
            if exit_code == _KILLED and not reason and ran_out_of_memory(held.cgroups):
                reason = "memory"
            return exit_code, reason
        finally:
            remove_cgroups(held.cgroups)

    async def _run(self, held: HeldPayload) -> tuple[int | None, str]:
        """The payload until its end, and that of everything it left. No exit code when it got no work."""
        pump = asyncio.ensure_future(self._pump(held.output))
        watchers: tuple[asyncio.Task[None], ...] = ()
        try:
            verdict = await self._set_up()
            if verdict is not None:
                return None, verdict.reason
            self._directory.write_started(held.process.pid)
            held.let_go(self._order)
            watchers = await watch_all(
                self._order, self._directory, held.process.pid, self._verdicts.put_nowait
            )
            return await self._attend(held.process)
        finally:
            for watcher in watchers:
                watcher.cancel()
            await asyncio.gather(*watchers, return_exceptions=True)
            await kill_all(held.process)
            await asyncio.wait((pump,), timeout=_DRAIN_S)
            pump.cancel()

    async def _set_up(self) -> Verdict | None:
        """Work tree and agent configuration; a verdict when the end was asked for meanwhile."""
        making = asyncio.ensure_future(self._make_work_tree())
        hearing = asyncio.ensure_future(self._verdicts.get())
        try:
            await asyncio.wait((making, hearing), return_when=asyncio.FIRST_COMPLETED)
            if hearing.done():
                return hearing.result()
            await making
            return None
        finally:
            for task in (making, hearing):
                task.cancel()
            await asyncio.gather(making, hearing, return_exceptions=True)

    async def _make_work_tree(self) -> None:
        order, work = self._order, self._directory.work
        await make_work_tree(Path(order.mirror), work, order.branch, order.start_sha)
        await lay_base_config(work, order.start_sha, order.agent_config_sha)

    async def _pump(self, descriptor: int) -> None:
        """The payload's output into its log, until everybody who could write has ended. Closes `descriptor`."""
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
        )
        try:
            while chunk := await reader.read(_CHUNK_BYTES):
                self._log.write(chunk)
        finally:
            transport.close()

    async def _attend(self, process: asyncio.subprocess.Process) -> tuple[int, str]:
        """Until the payload has ended, or a verdict's grace is over."""
        ended = asyncio.ensure_future(process.wait())
        reason, deadline = "", float("inf")
        try:
            while True:
                left = deadline - time.monotonic()
                verdict = await self._hear(ended, left)
                if ended.done():
                    return _exit_code(ended.result()), reason
                if verdict is None or verdict.grace_s <= 0:
                    named = verdict.reason if verdict is not None else reason
                    return _KILLED, "killed" if named == "stopped" else named
                deadline = min(deadline, time.monotonic() + verdict.grace_s)
                if not reason:
                    reason = verdict.reason
                    self._ask_to_end(process.pid)
        finally:
            ended.cancel()

    async def _hear(self, ended: asyncio.Future[int], left_s: float) -> Verdict | None:
        """The next verdict; None when the payload ended or the time is over."""
        hearing = asyncio.ensure_future(self._verdicts.get())
        timeout = None if left_s == float("inf") else max(0.0, left_s)
        await asyncio.wait((ended, hearing), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if hearing.done():
            return hearing.result()
        hearing.cancel()
        return None

    def _ask_to_end(self, pid: int) -> None:
        """SIGTERM to the forwarder. bubblewrap passes no signals on: below it is the namespace's init, whose eldest
        child is the forwarder (orphans of the agent become younger siblings).
        """
        target: int | None = pid
        if self._order.isolation is Isolation.BUBBLEWRAP:
            table = read_table()
            init = find_eldest_child(table, pid)
            forwarder = find_eldest_child(table, init.pid) if init is not None else None
            target = forwarder.pid if forwarder is not None else None
        if target is None:
            # Not set up yet: there is nothing to wrap up.
            self._verdicts.put_nowait(Verdict("stopped", 0))
            return
        with suppress(ProcessLookupError):
            os.kill(target, signal.SIGTERM)


async def kill_all(process: asyncio.subprocess.Process) -> None:
    """Everything below this keeper, to which orphans are handed (by the kernel, see `main`). In a namespace the
    first kill takes all; without one, children may be born meanwhile, so again until none is left.
    """
    end = time.monotonic() + _KILL_S
    while (inside := list_descendants(read_table(), os.getpid())) and time.monotonic() < end:
        for entry in inside:
            with suppress(ProcessLookupError):
                os.kill(entry.pid, signal.SIGKILL)
        await asyncio.sleep(0.01)
    if process.returncode is None:
        await process.wait()
    _collect_orphans()


def _collect_orphans() -> None:
    """What was handed to this process and has ended; only once asyncio waits for nobody any more."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _exit_code(returncode: int) -> int:
    return 128 - returncode if returncode < 0 else returncode


async def keep_spare(directory: StateDir, size: KeeperOrder, maker: socket.socket) -> None:
    """Until it has been ordered and has ended, or `maker` has closed its end, or the payload has ended."""
    held = await HeldPayload.start(size, directory)
    ordered = await _await_order(held, maker, directory.path.parent)
    if ordered is not None:
        maker.close()
        await Keeper(*ordered, held).keep()
        return
    ended = held.process.returncode
    if ended is not None:
        # Its maker reads this in the directory, and then removes it.
        print(
            f"its payload ended with {_exit_code(ended)}: {_last_words(held.output)}",
            file=sys.stderr,
            flush=True,
        )
        maker.close()
    await kill_all(held.process)
    remove_cgroups(held.cgroups)
    if ended is None:
        # Under this name it is nobody's. With an order it has another, and waits for another keeper.
        shutil.rmtree(directory.path, ignore_errors=True)
        maker.close()  # who waits for that finds nothing left


def _last_words(output: int) -> str:
    """What a payload that has ended wrote, as far as it fits into a line."""
    os.set_blocking(output, False)
    try:
        said = os.read(output, _CHUNK_BYTES)
    except BlockingIOError:
        return ""
    return " ".join(said[-500:].decode("utf-8", "replace").split())


async def _await_order(
    held: HeldPayload, maker: socket.socket, root: Path
) -> tuple[StateDir, KeeperOrder] | None:
    loop = asyncio.get_running_loop()
    maker.setblocking(False)
    hearing = asyncio.ensure_future(loop.sock_recv(maker, _NAME_BYTES))
    ended = asyncio.ensure_future(held.process.wait())
    try:
        await asyncio.wait((hearing, ended), return_when=asyncio.FIRST_COMPLETED)
        # A name is written in one go, and is shorter than any socket's buffer.
        if not hearing.done() or not (name := hearing.result().decode()):
            return None
        directory = StateDir(root / check_name(name))
        order = directory.read_order()
        if order is None or directory.read_keeper_pid() is not None:
            return None
        directory.write_keeper_pid(os.getpid())
        with suppress(OSError):  # who told it may be dead by now; the order stands
            await loop.sock_sendall(maker, TAKEN)
    except (OSError, Refused):
        return None
    else:
        return directory, order
    finally:
        for one in (hearing, ended):
            one.cancel()


def main(arguments: Sequence[str]) -> int:
    *options, path = arguments
    directory = StateDir(Path(path))
    lock = directory.open_lock(wait_s=_LOCK_WAIT_S)
    # No lock: somebody keeps it. A pid: somebody did, and a second one would start over on a used work tree.
    if lock is None or directory.read_keeper_pid() is not None:
        return 0
    spare = options == ["--spare"]
    order = directory.read_size() if spare else directory.read_order()
    if order is None:
        return 0
    if os.fork() > 0:
        # The lock belongs to the open file, which the child holds on to.
        os._exit(0)
    become_subreaper()
    if spare:
        maker = socket.socket(fileno=os.dup(0))
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        asyncio.run(keep_spare(directory, order, maker))
        return 0
    directory.write_keeper_pid(os.getpid())
    asyncio.run(Keeper(directory, order).keep())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
