"""A provider of sandboxes in memory, by the port's rules: named, found again, never made twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.domain.ports import Probe, SandboxOrder, SandboxSight, SandboxStatus


@dataclass
class ScriptedSandboxes:
    """`orders` in the order of arrival; a test says what becomes of a sandbox by `end`."""

    kind: str = "process"
    orders: dict[str, SandboxOrder] = field(default_factory=dict)
    sights: dict[str, SandboxSight] = field(default_factory=dict)
    stops: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    logs: dict[str, bytes] = field(default_factory=dict)
    obeys: bool = True
    """Ends at once when it is asked to stop."""

    async def probe(self) -> Probe:
        return Probe(ok=True, detail="in memory")

    async def ensure_created(self, order: SandboxOrder) -> SandboxSight:
        if order.name not in self.orders:
            self.orders[order.name] = order
            self.sights[order.name] = SandboxSight(order.name, SandboxStatus.RUNNING, labels=order.labels)
        return await self.fetch_sight(order.name)

    async def fetch_sight(self, name: str) -> SandboxSight:
        return self.sights.get(name, SandboxSight(name, SandboxStatus.ABSENT))

    async def ensure_stopped(self, name: str, grace_s: float) -> None:
        self.stops.append(name)
        if self.obeys:
            self.end(name, 143)

    async def ensure_deleted(self, name: str) -> None:
        if self.sights.pop(name, None) is not None:
            self.deleted.append(name)

    async def list_owned(self) -> Sequence[SandboxSight]:
        return list(self.sights.values())

    async def fetch_log(self, name: str, offset: int = 0, limit: int = 65536) -> bytes:
        return self.logs.get(name, b"")[offset : offset + limit]

    async def fetch_log_start(self, name: str) -> int:
        del name
        return 0

    async def fetch_log_tail(self, name: str, size: int) -> bytes:
        return self.logs.get(name, b"")[-size:]

    async def aclose(self) -> None: ...

    # ------------------------------------------------------------ what a test makes happen

    @property
    def newest(self) -> SandboxOrder:
        return list(self.orders.values())[-1]

    def end(self, name: str, exit_code: int) -> None:
        if name in self.sights:
            self.sights[name] = SandboxSight(name, SandboxStatus.EXITED, exit_code)

    def lose(self, name: str) -> None:
        self.sights.pop(name, None)
