"""Faults, the clock, limits, and levers on webhooks."""

from dataclasses import asdict
from typing import Any

from simulators.github.control_api.registry import Json, Simulation, control
from simulators.github.deliveries import Lever
from simulators.github.faults import SECONDARY, Fault


@control("faults/add")
def add_fault(sim: Simulation, secondary: bool = False, **fields: Any) -> Json:
    """A fault rule (fields of ``Fault``); ``secondary`` makes it GitHub's secondary rate limit."""
    if secondary:
        fields = {"status": 403, "message": SECONDARY, "headers": {"Retry-After": "60"}, **fields}
    fault = Fault(len(sim.faults.rules) + 1, **fields)
    sim.faults.rules.append(fault)
    return asdict(fault)


@control("faults/clear")
def clear_faults(sim: Simulation) -> Json:
    """Removes all rules; says how often each hit."""
    hits = {str(rule.id): rule.hits for rule in sim.faults.rules}
    sim.faults.rules.clear()
    return hits


@control("clock/advance")
def advance(sim: Simulation, seconds: float) -> Json:
    """Moves the clock that ages tokens and stamps times. App JWTs are still checked by wall time."""
    sim.world.clock.offset_s += seconds
    return {"offset_s": sim.world.clock.offset_s}


@control("clock/skew")
def skew(sim: Simulation, seconds: float) -> Json:
    """Sets by how much GitHub's clock differs from the caller's when App JWTs are checked."""
    sim.world.clock.jwt_skew_s = seconds
    return {"jwt_skew_s": seconds}


@control("limits/exhaust")
def exhaust(sim: Simulation, seconds: float, installation_id: int | None = None) -> Json:
    """``remaining: 0`` for one installation (or everybody) for some seconds; 0 ends it."""
    key = "*" if installation_id is None else str(installation_id)
    until = sim.world.now().timestamp() + seconds
    sim.limits.exhausted[key] = until
    return {"until": until}


@control("tokens/length")
def token_length(sim: Simulation, length: int) -> Json:
    """How long new installation tokens are, roughly."""
    sim.world.token_length = length
    return {"token_length": length}


@control("webhooks/lever")
def lever(
    sim: Simulation, mode: str, event: str = "*", times: int | None = None, record: bool = False
) -> Json:
    """Holds, drops or duplicates deliveries of an event (``*``: all)."""
    if mode not in ("hold", "drop", "duplicate"):
        raise ValueError("mode is hold, drop or duplicate")
    found = Lever(mode, event, times, record)
    sim.platform.outbox.levers.append(found)
    return asdict(found)


@control("webhooks/release")
def release(sim: Simulation, shuffle: bool = False, seed: int = 0) -> Json:
    """Removes all levers and sends what was held, in order or shuffled."""
    sim.platform.outbox.levers.clear()
    return {"released": sim.platform.outbox.release(shuffle=shuffle, seed=seed)}


@control("webhooks/redeliver")
def redeliver(sim: Simulation, delivery_id: int) -> Json:
    """Sends a delivery again under its GUID."""
    outbox = sim.platform.outbox
    old = outbox.deliveries[delivery_id]
    return {"id": outbox.redeliver(sim.world.apps[old.app_id], old).id}
