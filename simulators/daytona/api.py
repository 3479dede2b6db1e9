"""The control plane: sandboxes and snapshots over REST."""

import json
import re
from collections.abc import Callable
from typing import Any

from starlette.requests import Request

from simulators.daytona.errors import ApiError
from simulators.daytona.machine import Machine, iso
from simulators.daytona.world import Snapshot, World

Json = dict[str, Any]
Answer = tuple[int, Any]
INTERVALS = {"autostop", "autoarchive", "autodelete", "ttl"}
BUILT_IN = ("daytona-small", "daytona-medium", "daytona-large")
PAGE = 100


class ControlPlane:
    """Answers below ``/api``. Raises ApiError."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def answer(self, request: Request, path: str) -> Answer:
        """``path`` without ``/api``."""
        world, method = self.world, request.method
        world.limits.count("authenticated", world.now())
        parts = path.strip("/").split("/")
        body: Json = json.loads(await request.body() or b"{}") if method in {"POST", "PUT"} else {}
        if parts[0] == "sandbox":
            return self._sandboxes(request, method, parts[1:], body)
        if parts[0] == "snapshots":
            return self._snapshots(method, parts[1:], body)
        if parts == ["config"]:
            return 200, {"version": "simulated", "analyticsApiUrl": None}
        raise ApiError(404, f"Cannot {method} /api{path}")

    # ------------------------------------------------------------ sandboxes

    def _sandboxes(self, request: Request, method: str, parts: list[str], body: Json) -> Answer:
        world = self.world
        if not parts:
            if method == "POST":
                world.limits.count("sandbox-create", world.now())
                return 200, world.create(body).shown()
            return 200, self._page(request)
        machine = world.find(parts[0])
        rest = parts[1:]
        if not rest:
            if method == "DELETE":
                world.limits.count("sandbox-lifecycle", world.now())
                world.destroy(machine)
                machine.state = "destroying"
            return 200, machine.shown()
        if rest == ["toolbox-proxy-url"]:
            return 200, {"url": machine.toolbox_url}
        if rest == ["labels"] and method == "PUT":
            machine.labels = dict(body.get("labels") or {})
            return 200, {"labels": machine.labels}
        return self._change(machine, rest, method)

    def _change(self, machine: Machine, rest: list[str], method: str) -> Answer:
        world = self.world
        if method != "POST":
            raise ApiError(404, "Cannot do that")
        if rest == ["last-activity"]:
            machine.last_activity_at = world.now()
            return 201, None
        if len(rest) == 2 and rest[0] in INTERVALS and re.fullmatch(r"-?\d+", rest[1]):
            machine.intervals[rest[0]] = int(rest[1])
            return 200, machine.shown()
        levers: dict[str, Callable[[Machine], None]] = {"stop": world.stop, "start": world.start}
        lever = levers.get(rest[0])
        if lever is None:
            raise ApiError(404, "Cannot do that")
        world.limits.count("sandbox-lifecycle", world.now())
        lever(machine)
        return 200, machine.shown()

    def _page(self, request: Request) -> Json:
        """Newest first; ``labels`` is a JSON object that must be part of a machine's own."""
        query = request.query_params
        wanted = json.loads(query.get("labels") or "{}")
        found = [
            one
            for one in sorted(self.world.machines.values(), key=lambda one: -one.created_at)
            if one.state != "destroyed" and wanted.items() <= one.labels.items()
        ]
        start, limit = int(query.get("cursor") or 0), min(int(query.get("limit") or PAGE), PAGE)
        after = start + limit
        return {
            "items": [one.listed() for one in found[start:after]],
            "nextCursor": str(after) if after < len(found) else None,
        }

    # ------------------------------------------------------------ snapshots

    def _snapshots(self, method: str, parts: list[str], body: Json) -> Answer:
        world = self.world
        if not parts:
            if method == "POST":
                return 200, self._show(self._create_snapshot(body))
            items = [self._show(one) for one in world.snapshots.values()]
            return 200, {"items": items, "total": len(items), "page": 1, "totalPages": 1}
        snapshot = world.find_snapshot(parts[0])
        if method == "DELETE":
            del world.snapshots[snapshot.name]
        elif parts[1:] == ["activate"]:
            if snapshot.state == "active":
                raise ApiError(400, f"Snapshot {snapshot.name} is already active")
            snapshot.state = "active"
        elif parts[1:] == ["build-logs-url"]:
            return 200, {"url": f"{world.base_url}/build-logs/{snapshot.id}"}
        return 200, self._show(snapshot)

    def _create_snapshot(self, body: Json) -> Snapshot:
        name = str(body.get("name") or "")
        if name in self.world.snapshots:
            raise ApiError(409, f"Snapshot with name {name} already exists")
        size = {key: int(body.get(key) or least) for key, least in {"cpu": 1, "memory": 1, "disk": 3}.items()}
        self.world.limits.check_size(size, [])
        made = Snapshot(name, size=size, build_info=body.get("buildInfo"))
        self.world.snapshots[name] = made
        return made

    def _show(self, snapshot: Snapshot) -> Json:
        now = iso(self.world.now())
        return {
            "id": snapshot.id, "organizationId": "org-simulated", "general": snapshot.name in BUILT_IN,
            "name": snapshot.name, "state": snapshot.state, "size": 1, "entrypoint": None,
            "cpu": snapshot.size["cpu"], "gpu": 0, "mem": snapshot.size["memory"], "disk": snapshot.size["disk"],
            "errorReason": snapshot.error_reason, "createdAt": now, "updatedAt": now, "lastUsedAt": None,
            "sourceSandboxId": None,
        }  # fmt: skip
