"""``POST /_sim/AREA/VERB`` with a JSON object of arguments, and ``GET /_sim/state|requests``: for tests and the demo."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from simulators.daytona.faults import Fault
from simulators.daytona.world import Fate, Snapshot, World

Json = dict[str, Any]


class Control:
    """No authentication: it is for whoever started the simulator. Raises LookupError, ValueError, TypeError."""

    def __init__(self, world: World, faults: list[Fault], requests: list[Json]) -> None:
        self.world = world
        self.faults = faults
        self.requests = requests
        self.actions: dict[str, Callable[..., Any]] = {
            "faults/add": self.add_fault,
            "faults/clear": self.clear_faults,
            "clock/advance": self.advance,
            "limits/set": self.set_rates,
            "quota/set": self.set_quota,
            "tier/set": self.set_tier,
            "delays/set": self.set_delays,
            "snapshots/set": self.set_snapshot,
            "machines/next": self.next_machine,
            "machines/state": self.set_state,
            "destroying/stick": self.stick_destroying,
        }

    async def do(self, name: str, given: Json) -> Any:
        """One action by name."""
        if name == "machines/kill":
            # Everything in it dies, and the control plane goes on calling it started.
            return await self.world.find(given["machine"]).box.kill()
        if name not in self.actions:
            raise LookupError(f"no action {name}")
        return self.actions[name](**given)

    def read(self, name: str) -> Any:
        """What is there, what was asked."""
        if name == "requests":
            return self.requests
        if name == "state":
            machines = [one.shown() for one in self.world.machines.values()]
            snapshots = [asdict(one) for one in self.world.snapshots.values()]
            return {"isolation": self.world.isolation, "machines": machines, "snapshots": snapshots}
        raise LookupError(f"nothing to read at {name}")

    def add_fault(self, **fields: Any) -> Json:
        """A rule with the fields of ``Fault``."""
        fault = Fault(len(self.faults) + 1, **fields)
        self.faults.append(fault)
        return asdict(fault)

    def clear_faults(self) -> Json:
        """Removes all rules; says how often each hit."""
        hits = {str(fault.id): fault.hits for fault in self.faults}
        self.faults.clear()
        return hits

    def advance(self, seconds: float) -> Json:
        """Moves the clock of timers and rate limits."""
        self.world.offset_s += seconds
        self.world.tick()
        return {"offset_s": self.world.offset_s}

    def set_rates(self, **rates: int) -> Json:
        """Requests a minute by throttler, with ``_`` for ``-``."""
        self.world.limits.rates = {name.replace("_", "-"): value for name, value in rates.items()}
        return dict(self.world.limits.rates)

    def set_quota(self, **quota: int) -> Json:
        self.world.limits.quota.update(quota)
        return dict(self.world.limits.quota)

    def set_tier(self, tier: int, open_ports: Sequence[int] = ()) -> Json:
        """1 and 2: a fixed network, in which only these ports of this host are reached."""
        self.world.limits.tier = tier
        self.world.limits.open_ports = list(open_ports)
        return {"tier": tier}

    def set_delays(self, **seconds: float) -> Json:
        for name, value in seconds.items():
            setattr(self.world.delays, name, value)
        return asdict(self.world.delays)

    def set_snapshot(self, name: str, state: str = "active", **size: int) -> Json:
        """Makes it, or changes its state (``removed``: takes it away)."""
        if state == "removed":
            self.world.snapshots.pop(name, None)
            return {}
        snapshot = self.world.snapshots.setdefault(name, Snapshot(name))
        snapshot.state = state
        snapshot.size = {**snapshot.size, **size}
        return asdict(snapshot)

    def next_machine(self, state: str, reason: str = "") -> Json:
        """What becomes of the next one: ``stuck``, ``error`` or ``build_failed``."""
        self.world.fates.append(Fate(state, reason))
        return {"waiting": len(self.world.fates)}

    def set_state(self, machine: str, state: str, reason: str | None = None) -> Json:
        """What the control plane says of it, whatever goes on inside."""
        found = self.world.find(machine)
        found.state, found.error_reason = state, reason
        return found.shown()

    def stick_destroying(self, on: bool = True) -> Json:
        """Machines that are deleted from now on never get past ``destroying``."""
        self.world.stuck_destroying = on
        return {"on": on}
