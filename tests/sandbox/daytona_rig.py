"""A provider on a simulated Daytona, and the levers of both."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

from app.domain.ports import SandboxOrder, SandboxSight, SandboxStatus
from app.sandbox.bundle import installed_payload
from app.sandbox.daytona import DaytonaSandboxes
from app.sandbox.daytona_account import DaytonaAccount
from app.sandbox.daytona_making import DaytonaPace
from simulators.daytona.simulator import DaytonaSimulator

KEY = "daytona-test-key"
PACE = DaytonaPace(
    start_s=60, build_s=60, look_s=0.05, upload_s=30, create_s=20, patience_s=0.3, keep_alive_s=0.1
)
"""Long where a slow machine takes long, short where nothing but waiting happens."""
HASTY = replace(PACE, start_s=3, build_s=3, create_s=1.5)
INSTANCE = "inst1"


def make_payload(directory: Path) -> Path:
    """A package that boots as the real one and then only stands in for it."""
    package = directory / "sandbox_payload"
    shutil.copytree(
        installed_payload() / "wire", package / "wire", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("__init__.py", "boot.py"):
        shutil.copy(installed_payload() / name, package)
    shutil.copy(Path(__file__).with_name("remote_stand_in.py"), package / "__main__.py")
    return package


@dataclass
class Rig:
    simulator: DaytonaSimulator
    home: Path
    payload: Path
    providers: list[DaytonaSandboxes] = field(default_factory=list)

    def provider(self, *, pace: DaytonaPace = PACE, **changes: Any) -> DaytonaSandboxes:
        values: dict[str, Any] = {
            "api_key": KEY, "api_url": f"{self.simulator.world.base_url}/api", "target": "local",
            "app_url": "https://app.example.org", "snapshot": "ai-agent-dev-light", "image": "",
            "asked_size": None, "instance": INSTANCE,
        }  # fmt: skip
        made = DaytonaSandboxes(
            DaytonaAccount(**(values | changes)), self.home, pace=pace, payload=self.payload
        )
        self.providers.append(made)
        return made

    def do(self, action: str, **arguments: Any) -> Any:
        answer = httpx.post(
            f"{self.simulator.world.base_url}/_sim/{action}", json=arguments, trust_env=False, timeout=20
        )
        assert answer.status_code == 200, answer.text
        return answer.json()

    def machines(self) -> list[dict[str, Any]]:
        """Those that still cost something."""
        answer = httpx.get(f"{self.simulator.world.base_url}/_sim/state", trust_env=False)
        return [one for one in answer.json()["machines"] if one["state"] != "destroyed"]

    def asked(self, method: str, ending: str) -> list[dict[str, Any]]:
        return [
            one for one in self.simulator.requests if one["method"] == method and one["path"].endswith(ending)
        ]

    async def made(self, provider: DaytonaSandboxes, order: SandboxOrder) -> SandboxSight:
        """As a worker: asks until it is no longer being made."""
        seen = await provider.ensure_created(order)
        deadline = time.monotonic() + 60
        while seen.status is SandboxStatus.CREATING:
            assert time.monotonic() < deadline, seen
            seen = await provider.ensure_created(order)
        return seen


async def until(look: Callable[[], Any], what: str, seconds: float = 40) -> Any:
    """`look` may be a coroutine function."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.05)
