"""What a keeper is told, as it stands in order.json: the provider's order without its secrets, and the host's part."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

from app.domain.errors import Refused


class Isolation(StrEnum):
    BUBBLEWRAP = "bubblewrap"
    PROCESS = "process"


@dataclass(frozen=True)
class Pace:
    """How often a keeper looks and how long it waits, in seconds, and what it caps. The defaults are the product's;
    tests hand in smaller ones.
    """

    look_s: float = 0.5
    """Between two looks at processes, memory and stop requests."""
    disk_look_s: float = 3.0
    disk_count_s: float = 120.0
    """The longest look at the disk. What can't be counted in that time, twice, is too much: else an agent could fill the
    disk behind many small files.
    """
    app_look_s: float = 15.0
    app_silence_s: float = 600.0
    """The sandbox ends when nothing has answered on gateway.sock for so long (DESIGN, the local sandbox)."""
    wall_margin_s: float = 60.0
    """Beyond the order's time limit, which the payload is to keep by itself."""
    grace_s: float = 25.0
    """To wrap up in, when the keeper ends it on its own account."""
    spare_look_s: float = 1.0
    spare_after_s: float = 5.0
    """From an order to the next spare sandbox."""
    spare_retry_s: float = 60.0
    gb_bytes: int = 1024**3
    max_processes: int = 1024
    max_threads: int = 4096
    """Where the kernel refuses more; the keeper ends the sandbox at `max_processes`."""
    shm_bytes: int = 256 * 1024**2
    log_segment_bytes: int = 4 * 1024**2
    log_segments: int = 4


OF_NOBODY: Mapping[str, Any] = {
    "sandbox_id": "", "name": "", "labels": {}, "environment": {},
    "mirror": "", "branch": "", "start_sha": "", "agent_config_sha": "",
}  # fmt: skip
"""Of a `KeeperOrder` what it says of one sandbox in particular, where there is none."""


@dataclass(frozen=True)
class KeeperOrder:
    """As `app.domain.ports.SandboxOrder`, and beside it: `isolation`, `bwrap` (the binary's path, its options that
    depend on its version), `socket_dir` (holds gateway.sock and proxy.sock), `payload_digest`, `pace`.
    """

    sandbox_id: str
    name: str
    labels: Mapping[str, str]
    environment: Mapping[str, str]
    mirror: str
    branch: str
    start_sha: str
    agent_config_sha: str
    memory_gb: int
    cpu: int
    disk_gb: int
    time_limit_s: int
    allow_hosts: tuple[str, ...]
    isolation: Isolation
    socket_dir: str
    payload_digest: str
    bwrap: tuple[str, ...] = ()
    pace: Pace = field(default_factory=Pace)

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), indent=1, sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes) -> KeeperOrder:
        """What another version wrote is read as far as it goes: unknown fields are left out, missing ones get their
        defaults. Raises Refused when that is not enough.
        """
        try:
            facts = _known(cls, json.loads(data))
            facts["pace"] = Pace(**_known(Pace, facts.get("pace", {})))
            facts["isolation"] = Isolation(facts["isolation"])
            for name in ("allow_hosts", "bwrap"):
                facts[name] = tuple(facts.get(name, ()))
            return cls(**facts)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Refused(f"order.json is not readable: {error}", code="order") from error


def _known(kind: type[KeeperOrder | Pace], facts: Mapping[str, Any]) -> dict[str, Any]:
    names = {one.name for one in fields(kind)}
    return {name: value for name, value in facts.items() if name in names}
