"""One simulated sandbox: what was asked for, the state it is in, the timers that change it."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from simulators.daytona.box import Box

Json = dict[str, Any]
MAKING = frozenset({"pending_build", "building_snapshot", "creating", "starting"})
HALTED = frozenset({"stopped", "error", "build_failed"})


@dataclass
class Machine:
    """Times are seconds of the simulated clock (unix). ``stuck`` keeps it in its state for good."""

    id: str
    name: str
    box: Box
    toolbox_url: str
    size: dict[str, int]
    labels: dict[str, str]
    env: dict[str, str]
    created_at: float
    asked: Json
    state: str = "creating"
    error_reason: str | None = None
    stuck: bool = False
    last_activity_at: float = 0.0
    stopped_at: float | None = None
    intervals: dict[str, int] = field(default_factory=dict)
    isolation: str = "bubblewrap"

    def due(self, now: float) -> str | None:
        """What a timer asks for now: ``stop``, ``destroy`` or nothing. Minutes; 0 stops none, -1 deletes none."""
        if self.stuck or self.state in {"destroying", "destroyed"}:
            return None
        ttl = self.intervals["ttl"]
        if ttl > 0 and now - self.created_at >= ttl * 60:
            return "destroy"
        stop, delete = self.intervals["autostop"], self.intervals["autodelete"]
        if self.state == "started" and stop > 0 and now - self.last_activity_at >= stop * 60:
            return "stop"
        if self.stopped_at is not None and self.state == "stopped" and delete >= 0:
            return "destroy" if now - self.stopped_at >= delete * 60 else None
        return None

    @property
    def held(self) -> dict[str, int]:
        """What it takes of the organization's quota: one that is stopped, its disk."""
        if self.state in {"destroyed", "build_failed"}:
            return dict.fromkeys(self.size, 0)
        return {**self.size, "cpu": 0, "memory": 0} if self.state == "stopped" else self.size

    def shown(self) -> Json:
        """The API's Sandbox."""
        asked = self.asked
        return {
            **self.listed(),
            "env": self.env,
            "kvm": False,
            "networkAllowList": asked.get("networkAllowList"),
            "domainAllowList": asked.get("domainAllowList"),
            "volumes": [],
        }

    def listed(self) -> Json:
        """The API's SandboxListItem. ``runnerId`` says whether commands are isolated."""
        return {
            "id": self.id, "organizationId": "org-simulated", "name": self.name, "user": "daytona",
            "labels": self.labels, "public": False, "networkBlockAll": bool(self.asked.get("networkBlockAll")),
            "target": self.asked.get("target") or "local", "cpu": self.size["cpu"], "gpu": 0,
            "memory": self.size["memory"], "disk": self.size["disk"], "state": self.state,
            "errorReason": self.error_reason, "snapshot": self.asked.get("snapshot"),
            "autoStopInterval": self.intervals["autostop"], "autoArchiveInterval": self.intervals["autoarchive"],
            "autoDeleteInterval": self.intervals["autodelete"], "createdAt": iso(self.created_at),
            "updatedAt": iso(self.stopped_at or self.created_at), "lastActivityAt": iso(self.last_activity_at),
            "runnerId": f"simulated-{self.isolation}", "toolboxProxyUrl": self.toolbox_url,
            "sandboxClass": "container",
        }  # fmt: skip


def iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
