"""What crashed runs left at a sandbox provider, found from both sides. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from app.domain.ports import SandboxSight
from app.domain.states import SANDBOX_LIVE, SandboxState

YOUNG = timedelta(minutes=3)
"""A machine without a row may be one whose row is not committed yet."""
LINGERING = timedelta(minutes=10)
"""How long the worker has to take down the machine of a sandbox that ended."""


class Leftover(StrEnum):
    MACHINE = "machine"
    """Still at the provider, though nothing works in it: to be deleted there."""
    ROW = "row"
    """Counts as being at the provider, which no longer has it: to be noted as removed."""


@dataclass(frozen=True)
class KnownSandbox:
    """What the database says of a sandbox that has a machine or may have one."""

    id: str
    name: str
    state: SandboxState
    ended_at: datetime | None
    removed: bool


@dataclass(frozen=True)
class Finding:
    kind: Leftover
    name: str
    """At the provider."""
    sandbox_id: str | None
    why: str


def instance_of(name: str) -> str:
    """Of a machine's name, `iw-INSTANCE-SANDBOX`."""
    return name.removeprefix("iw-").partition("-")[0]


def decide_leftovers(
    instance: str, sights: Sequence[SandboxSight], known: Mapping[str, KnownSandbox], now: datetime
) -> list[Finding]:
    """`known` by name. Machines whose names are not of this instance are nobody's business here; sandboxes that live
    are the worker's.
    """
    found = []
    for sight in sights:
        if not sight.name.startswith(f"iw-{instance}-"):
            continue
        row = known.get(sight.name)
        why = _why_unwanted(sight, row, now)
        if why is not None:
            found.append(
                Finding(Leftover.MACHINE, sight.name, row.id if row else sight.labels.get("sandbox"), why)
            )
    seen = {sight.name for sight in sights}
    for row in known.values():
        if row.name not in seen and not row.removed and _has_ended(row, now):
            why = f"ended ({row.state}), and the provider no longer has it"
            found.append(Finding(Leftover.ROW, row.name, row.id, why))
    return found


def _why_unwanted(sight: SandboxSight, row: KnownSandbox | None, now: datetime) -> str | None:
    if row is None:
        young = sight.started_at is not None and now - sight.started_at < YOUNG
        return None if young else "no sandbox of that name is known"
    return f"its sandbox has ended ({row.state})" if _has_ended(row, now) else None


def _has_ended(row: KnownSandbox, now: datetime) -> bool:
    return row.state not in SANDBOX_LIVE and (row.ended_at is None or now - row.ended_at > LINGERING)
