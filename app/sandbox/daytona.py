"""Sandboxes on Daytona, for teams: machines of their own, reached over the network.

The only truth is Daytona's (found by name and owner label) and what is in the machine. What is kept in memory is which
machines this worker is making just now, so that a step can wait for its own; another worker starts over and finds them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from app.domain.errors import OutsideError, Refused, RetryAt
from app.domain.ports import Probe, SandboxOrder, SandboxSight, SandboxStatus
from app.domain.remote import Left
from app.sandbox import daytona_inside as inside
from app.sandbox.bundle import installed_payload
from app.sandbox.daytona_account import DaytonaAccount
from app.sandbox.daytona_client import DaytonaClient, age, utc_now
from app.sandbox.daytona_errors import BUSY
from app.sandbox.daytona_left import save_left
from app.sandbox.daytona_link import LinkChoice
from app.sandbox.daytona_making import DaytonaPace, Failed, bring_up, missing_snapshot, require_size
from app.sandbox.daytona_parcel import check_environment
from app.sandbox.daytona_relay import DaytonaFiles
from app.sandbox.daytona_states import Stage, stage_of, state_text
from app.sandbox.image import IMAGE_VERSION
from app.sandbox.state_dir import check_name

Found = TypeVar("Found")

_log = logging.getLogger(__name__)

OWNER_LABEL = "issuewright"
STEP_S = 18.0
"""Every call ends within it, whatever Daytona does; what takes longer goes on beside it."""
STUCK = timedelta(minutes=10)


class DaytonaSandboxes:
    """Implements `ports.Sandboxes`, `remote.RelayFiles` and `remote.KeepsFiles`. `home` is ISSUEWRIGHT_HOME, for files on
    their way; `near` the web process's socket, where it is on this host. One event loop.
    """

    kind = "daytona"

    def __init__(
        self,
        account: DaytonaAccount,
        home: Path,
        clock: Callable[[], datetime] = utc_now,
        pace: DaytonaPace | None = None,
        payload: Path | None = None,
        near: Path | None = None,
    ) -> None:
        self.account = account
        self.client = DaytonaClient(account, clock)
        self._home = home
        self._pace = pace or DaytonaPace()
        self._payload = payload or installed_payload()
        self.near = near
        self.links = LinkChoice(account, clock, near)
        self._files = DaytonaFiles(self.client)
        self._making: dict[str, asyncio.Task[None]] = {}
        self._kept_alive: dict[str, float] = {}

    async def probe(self) -> Probe:
        """Key, snapshot and size, without making a machine. Raises RetryAt when Daytona can't be asked now."""
        try:
            await require_size(self.client)
            if self.account.image:
                await self.client.list_labeled({OWNER_LABEL: self.account.instance or "none"})
                return Probe(ok=True, detail=f"Daytona, image {self.account.image}")
            snapshot = await self.client.find_snapshot(self.account.snapshot)
        except RetryAt:
            raise
        except OutsideError as error:
            return Probe(ok=False, detail=str(error))
        if snapshot is None:
            return Probe(ok=False, detail=missing_snapshot(self.account))
        state = state_text(snapshot.state)
        if state in {"error", "build_failed", "removing"}:
            return Probe(ok=False, detail=f"snapshot {self.account.snapshot} is {state}: build it anew")
        return Probe(ok=True, detail=f"Daytona, snapshot {self.account.snapshot} ({state}, {IMAGE_VERSION})")

    async def ensure_created(self, order: SandboxOrder) -> SandboxSight:
        """Waits a few seconds for what goes on beside it; CREATING until the agent has been started."""
        return await self._within(self._ensure_created(order))

    async def fetch_sight(self, name: str) -> SandboxSight:
        """A started machine whose toolbox does not answer is RUNNING: its heartbeat decides."""
        return await self._within(self._fetch_sight(check_name(name)))

    async def ensure_stopped(self, name: str, grace_s: float) -> None:
        """Of one that is still being made nothing is worth waiting for: it is deleted."""
        await self._within(self._ensure_stopped(check_name(name), grace_s))

    async def ensure_deleted(self, name: str) -> None:
        await self._within(self._ensure_deleted(check_name(name)))

    async def list_owned(self) -> Sequence[SandboxSight]:
        """By the owner label, never by name: a sibling instance may live in the same organization."""
        return await self._within(self._list_owned())

    async def fetch_log(self, name: str, offset: int = 0, limit: int = 65536) -> bytes:
        """Empty also while the machine does not run."""
        read = partial(inside.fetch_output, offset=offset, limit=limit)
        return await self._within(self._fetch_log(check_name(name), read))

    async def fetch_log_start(self, name: str) -> int:
        """Machines keep all of it."""
        del name
        return 0

    async def fetch_log_tail(self, name: str, size: int) -> bytes:
        """As `fetch_log`."""
        return await self._within(
            self._fetch_log(check_name(name), partial(inside.fetch_output_tail, size=size))
        )

    async def fetch_file(self, name: str, file: str, limit: int) -> bytes | None:
        return await self._files.fetch_file(check_name(name), file, limit)

    async def save_file(self, name: str, file: str, target: Path, limit: int) -> bool:
        """As long as a large file takes; not for steps."""
        return await self._files.save_file(check_name(name), file, target, limit)

    async def put_file(self, name: str, file: str, data: bytes) -> None:
        await self._files.put_file(check_name(name), file, data)

    async def save_left(self, name: str, directory: Path) -> Left:
        return await save_left(self.client, self._files, check_name(name), directory, self._pace)

    async def aclose(self) -> None:
        """Machines stay; what this worker was making is taken up by another."""
        for task in self._making.values():
            task.cancel()
        await asyncio.gather(*self._making.values(), return_exceptions=True)
        self._making.clear()
        await self.client.aclose()

    async def _within(self, work: Coroutine[Any, Any, Found]) -> Found:
        """One call is several of Daytona's; a step has its time."""
        try:
            async with asyncio.timeout(STEP_S):
                return await work
        except TimeoutError as error:
            raise RetryAt(f"Daytona took longer than {STEP_S:g} s", self.client.clock() + BUSY) from error

    # ------------------------------------------------------------ doing

    async def _ensure_created(self, order: SandboxOrder) -> SandboxSight:
        check_environment(order)
        task = self._making.get(order.name)
        if task is None:
            seen = await self._look(order.name)
            if seen.status not in {SandboxStatus.ABSENT, SandboxStatus.CREATING}:
                return seen
            task = asyncio.create_task(
                bring_up(self.client, order, self._home, self._pace, self._payload, self.links)
            )
            self._making[order.name] = task
        await asyncio.wait({task}, timeout=self._pace.patience_s)
        if not task.done():
            return SandboxSight(order.name, SandboxStatus.CREATING, labels=order.labels)
        self._making.pop(order.name, None)
        try:
            task.result()
        except Failed as error:
            return SandboxSight(order.name, SandboxStatus.ERROR, detail=str(error), labels=order.labels)
        return await self._look(order.name)

    async def _fetch_sight(self, name: str) -> SandboxSight:
        if name in self._making:
            return SandboxSight(name, SandboxStatus.CREATING)
        try:
            seen = await self._look(name)
        except (RetryAt, Refused) as error:
            # Of a stopped machine the toolbox gives misleading answers, of a dead one none.
            machine = await self.client.find(name)
            if machine is None or stage_of(machine.state) is not Stage.STARTED:
                return _sight(machine, stage_of(machine.state)) if machine else _absent(name)
            return SandboxSight(name, SandboxStatus.RUNNING, detail=str(error), labels=dict(machine.labels))
        if seen.status is SandboxStatus.RUNNING:
            await self._keep_alive(name)
        return seen

    async def _ensure_stopped(self, name: str, grace_s: float) -> None:
        if name in self._making:
            return await self._ensure_deleted(name)
        machine = await self.client.find(name)
        if machine is not None and stage_of(machine.state) is Stage.STARTED:
            await inside.ask_to_end(self.client, machine, grace_s)
        return None

    async def _ensure_deleted(self, name: str) -> None:
        task = self._making.pop(name, None)
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError, OutsideError, Failed):
                await task
        self._kept_alive.pop(name, None)
        self._files.forget(name)
        await self.client.ensure_deleted(name)

    async def _list_owned(self) -> list[SandboxSight]:
        if not self.account.instance:
            return []
        machines = await self.client.list_labeled({OWNER_LABEL: self.account.instance})
        now = self.client.clock()
        sights = []
        for machine in machines:
            stage = stage_of(machine.state)
            old = age(machine, now)
            if stage is Stage.GOING and old is not None and old > STUCK:
                _log.warning(
                    "Daytona is still destroying %s: it may hold quota until it is gone", machine.name
                )
            if stage not in {Stage.GOING, Stage.GONE}:
                started_at = now - old if old is not None else None
                sights.append(_sight(machine, stage, started_at=started_at))
        return sights

    async def _fetch_log(
        self, name: str, read: Callable[[DaytonaClient, Any], Coroutine[Any, Any, bytes]]
    ) -> bytes:
        machine = await self.client.find(name)
        if machine is None or stage_of(machine.state) is not Stage.STARTED:
            return b""
        return await read(self.client, machine)

    # ------------------------------------------------------------ looking

    async def _look(self, name: str) -> SandboxSight:
        """CREATING also for a started machine whose agent was not launched yet."""
        machine = await self.client.find(name)
        if machine is None:
            return _absent(name)
        stage = stage_of(machine.state)
        if stage is not Stage.STARTED:
            return _sight(machine, stage)
        agent = await inside.fetch_agent(self.client, machine)
        if not agent.launched:
            return SandboxSight(name, SandboxStatus.CREATING, labels=dict(machine.labels))
        if agent.cut_off:
            stopped = "Daytona: stopped while nobody looked after it"
            return SandboxSight(name, SandboxStatus.EXITED, detail=stopped, labels=dict(machine.labels))
        if agent.exit_code is None:
            return SandboxSight(
                name, SandboxStatus.RUNNING, labels=dict(machine.labels), relayed=agent.relayed
            )
        return SandboxSight(name, SandboxStatus.EXITED, agent.exit_code, labels=dict(machine.labels))

    async def _keep_alive(self, name: str) -> None:
        """Running processes do not count as activity at Daytona; a look now and then must."""
        if time.monotonic() - self._kept_alive.get(name, -self._pace.keep_alive_s) < self._pace.keep_alive_s:
            return
        machine = await self.client.find(name)
        if machine is not None:
            await self.client.call(lambda _: machine.refresh_activity())
            self._kept_alive[name] = time.monotonic()


def _absent(name: str) -> SandboxSight:
    return SandboxSight(name, SandboxStatus.ABSENT)


def _sight(machine: Any, stage: Stage, *, started_at: datetime | None = None) -> SandboxSight:
    """By the control plane's word alone: a started machine counts as running."""
    state = state_text(machine.state)
    reason = " ".join(str(getattr(machine, "error_reason", None) or "").split())[:300]
    status, detail = {
        Stage.STARTED: (SandboxStatus.RUNNING, ""),
        Stage.MAKING: (SandboxStatus.CREATING, ""),
        Stage.UNCLEAR: (SandboxStatus.CREATING, state),
        Stage.GONE: (SandboxStatus.ABSENT, ""),
        Stage.GOING: (SandboxStatus.ERROR, "Daytona: being destroyed"),
    }.get(stage, (SandboxStatus.ERROR, f"Daytona: {state} {reason}".strip()))
    return SandboxSight(
        machine.name, status, detail=detail, labels=dict(machine.labels), started_at=started_at
    )
