"""The simulated Daytona of a world, as a process of its own, and its levers."""

from __future__ import annotations

from typing import Any

import httpx

DAYTONA_KEY = "dtncanary0123456789"


class SimulatedDaytona:
    """`url` is where the simulator listens."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(
            base_url=url, timeout=30, trust_env=False, limits=httpx.Limits(keepalive_expiry=2.0)
        )
        self.settings = {
            "DAYTONA_API_KEY": DAYTONA_KEY,
            "DAYTONA_API_URL": f"{url}/api",
            "DAYTONA_TARGET": "local",
        }
        """What the product is told of it."""

    def do(self, action: str, **arguments: Any) -> Any:
        """One action of `simulators.daytona.control`."""
        answer = self._http.post(f"/_sim/{action}", json=arguments)
        assert answer.is_success, answer.text
        return answer.json()

    def machines(self) -> list[dict[str, Any]]:
        """All that there ever were, as its API shows them."""
        return list(self._http.get("/_sim/state").json()["machines"])

    def live(self) -> list[str]:
        """Names of the machines that still cost something."""
        return [str(one["name"]) for one in self.machines() if one["state"] != "destroyed"]

    def close(self) -> None:
        self._http.close()
