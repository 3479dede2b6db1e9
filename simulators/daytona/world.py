"""The simulated organization: its machines and snapshots, its clock, what moves them from state to state."""

import asyncio
import contextlib
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulators.daytona.box import Box, BoxGone, isolation, make_image
from simulators.daytona.errors import ApiError
from simulators.daytona.limits import Limits
from simulators.daytona.machine import HALTED, Machine

Json = dict[str, Any]
TICK_S = 0.05
Notify = Callable[[str, Json], Awaitable[None]]


@dataclass
class Delays:
    """Seconds (of wall time) that a change of state takes."""

    create_s: float = 0.2
    build_s: float = 0.3
    stop_s: float = 0.1
    destroy_s: float = 0.1


@dataclass
class Fate:
    """What becomes of the next machine: ``stuck`` in its first state, ``error`` or ``build_failed`` with a reason."""

    state: str
    reason: str = ""


@dataclass
class Snapshot:
    name: str
    state: str = "active"
    size: dict[str, int] = field(default_factory=lambda: {"cpu": 2, "memory": 4, "disk": 8})
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    build_info: Json | None = None
    error_reason: str | None = None


class World:
    """``base_url`` is where the simulator is reached; files of machines are kept below ``directory``."""

    def __init__(self, directory: Path, base_url: str, api_key: str, image_version: str) -> None:
        self.directory = directory
        self.base_url = base_url
        self.api_key = api_key
        self.offset_s = 0.0
        self.limits = Limits()
        self.delays = Delays()
        self.fates: list[Fate] = []
        self.stuck_destroying = False
        self.isolation = isolation()
        self.machines: dict[str, Machine] = {}
        self.snapshots: dict[str, Snapshot] = {}
        self.image = make_image(directory / "image", image_version, isolated=self.isolation == "bubblewrap")
        self.notify: Notify | None = None
        self._changing: set[asyncio.Task[None]] = set()

    def now(self) -> float:
        return time.time() + self.offset_s

    # ------------------------------------------------------------ finding

    def find(self, id_or_name: str) -> Machine:
        """Raises ApiError 404, also for one that has been destroyed."""
        for machine in self.machines.values():
            if id_or_name in {machine.id, machine.name} and machine.state != "destroyed":
                return machine
        raise ApiError(404, f"Sandbox with ID or name {id_or_name} not found")

    def find_snapshot(self, id_or_name: str) -> Snapshot:
        for snapshot in self.snapshots.values():
            if id_or_name in {snapshot.id, snapshot.name}:
                return snapshot
        raise ApiError(404, f"Snapshot with ID or name {id_or_name} not found")

    # ------------------------------------------------------------ changes

    def create(self, asked: Json) -> Machine:
        """A new machine on its way. Raises ApiError as the real API does."""
        name = asked.get("name") or uuid.uuid4().hex
        if any(one.name == name and one.state != "destroyed" for one in self.machines.values()):
            raise ApiError(409, f"Sandbox with name {name} already exists")
        rules = bool(asked.get("networkAllowList") or asked.get("domainAllowList"))
        self.limits.check_network(rules=rules)
        size = self._size(asked)
        self.limits.check_size(size, [one.held for one in self.machines.values()])
        number = str(uuid.uuid4())
        network = self.limits.tier >= 3 and not asked.get("networkBlockAll")
        box = Box(
            self.directory / number,
            network=network, isolated=self.isolation == "bubblewrap", image=self.image,
            routes=self.limits.open_ports,
        )  # fmt: skip
        now = self.now()
        machine = Machine(
            number, name, box, f"{self.base_url}/toolbox", size, dict(asked.get("labels") or {}),
            dict(asked.get("env") or {}), now, asked, last_activity_at=now, isolation=self.isolation,
            state="pending_build" if asked.get("buildInfo") else "creating",
            intervals={
                "autostop": asked.get("autoStopInterval", 15), "autodelete": asked.get("autoDeleteInterval", -1),
                "autoarchive": asked.get("autoArchiveInterval", 7 * 24 * 60), "ttl": asked.get("ttlMinutes", 0),
            },
        )  # fmt: skip
        self.machines[number] = machine
        fate = self.fates.pop(0) if self.fates else None
        if fate is not None and fate.state == "stuck":
            machine.stuck = True
        elif fate is not None and not self.delays.create_s:
            machine.state, machine.error_reason = fate.state, fate.reason
        else:
            self._spawn(self._bring_up(machine, fate))
        return machine

    def stop(self, machine: Machine) -> None:
        if machine.state != "started":
            raise ApiError(400, "Sandbox is not started")
        self._spawn(self._halt(machine))

    def start(self, machine: Machine) -> None:
        if machine.state not in HALTED:
            raise ApiError(400, "Sandbox is not in a state that can be started")
        self.limits.check_size(
            machine.size, [one.held for one in self.machines.values() if one is not machine]
        )
        machine.state = "starting"
        self._spawn(self._bring_up(machine, None))

    def destroy(self, machine: Machine) -> None:
        if machine.state != "destroying":
            self._spawn(self._destroy(machine))

    def tick(self) -> None:
        """Lets timers act."""
        for machine in list(self.machines.values()):
            due = machine.due(self.now())
            if due == "stop":
                self.stop(machine)
            elif due == "destroy":
                self.destroy(machine)

    async def run(self) -> None:
        """Timers, until it is cancelled."""
        while True:
            self.tick()
            await asyncio.sleep(TICK_S)

    async def close(self) -> None:
        """Ends every machine."""
        for task in self._changing:
            task.cancel()
        await asyncio.gather(*self._changing, return_exceptions=True)
        for machine in self.machines.values():
            await machine.box.remove()

    def _size(self, asked: Json) -> dict[str, int]:
        if asked.get("buildInfo"):
            given = {"cpu": asked.get("cpu"), "memory": asked.get("memory"), "disk": asked.get("disk")}
            return {
                name: int(given[name] or least) for name, least in {"cpu": 1, "memory": 1, "disk": 3}.items()
            }
        snapshot = self.find_snapshot(asked.get("snapshot") or "daytona-small")
        if snapshot.state != "active":
            raise ApiError(400, f"Snapshot {snapshot.name} is {snapshot.state}: not active")
        if any(asked.get(name) for name in ("cpu", "memory", "disk")):
            raise ApiError(400, "Cannot specify Sandbox resources when using a snapshot")
        return snapshot.size

    def _spawn(self, change: Any) -> None:
        task = asyncio.get_running_loop().create_task(change)
        self._changing.add(task)
        task.add_done_callback(self._changing.discard)

    async def _to(self, machine: Machine, state: str, reason: str | None = None) -> None:
        machine.state, machine.error_reason = state, reason
        machine.last_activity_at = self.now()
        if self.notify is not None:
            await self.notify("sandbox.state.updated", {"sandbox": machine.shown(), "newState": state})

    async def _bring_up(self, machine: Machine, fate: Fate | None) -> None:
        if machine.state == "pending_build":
            await asyncio.sleep(self.delays.build_s / 2)
            await self._to(machine, "building_snapshot")
            await asyncio.sleep(self.delays.build_s / 2)
            if fate is not None and fate.state == "build_failed":
                return await self._to(machine, "build_failed", fate.reason)
        if machine.state == "starting":
            await self._to(machine, "starting")
        await asyncio.sleep(self.delays.create_s)
        if machine.state in {"destroying", "destroyed"}:
            return None
        if fate is not None:
            return await self._to(machine, fate.state, fate.reason)
        try:
            await machine.box.start(machine.env)
        except BoxGone as error:
            return await self._to(machine, "error", str(error))
        machine.stopped_at = None
        return await self._to(machine, "started")

    async def _halt(self, machine: Machine) -> None:
        await self._to(machine, "stopping")
        await asyncio.sleep(self.delays.stop_s)
        await machine.box.kill()
        machine.stopped_at = self.now()
        await self._to(machine, "stopped")

    async def _destroy(self, machine: Machine) -> None:
        await self._to(machine, "destroying")
        if self.stuck_destroying:
            machine.stuck = True
            return
        with contextlib.suppress(OSError):
            await asyncio.sleep(self.delays.destroy_s)
        await machine.box.remove()
        await self._to(machine, "destroyed")
