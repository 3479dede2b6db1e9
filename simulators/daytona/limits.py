"""Rate limits per throttler, quota of the organization, and the network rules of its tier."""

from dataclasses import dataclass, field

from simulators.daytona.errors import ApiError

FIXED_NETWORK = "Network access is restricted and cannot be overridden"
WINDOW_S = 60.0
LARGEST = {"cpu": 4, "memory": 8, "disk": 10}


@dataclass
class Limits:
    """``rates``: requests a minute by throttler (``authenticated``, ``sandbox-create``, ``sandbox-lifecycle``); without
    an entry nothing is limited. ``quota``: totals of ``cpu``, ``memory``, ``disk``. Tiers 1 and 2 have a fixed network,
    in which only ``open_ports`` of this host are reached.
    """

    tier: int = 3
    open_ports: list[int] = field(default_factory=list)
    rates: dict[str, int] = field(default_factory=dict)
    quota: dict[str, int] = field(default_factory=lambda: {"cpu": 250, "memory": 500, "disk": 2000})
    _seen: dict[str, list[float]] = field(default_factory=dict)

    def count(self, throttler: str, now: float) -> None:
        """Raises ApiError 429 with the throttler's headers."""
        allowed = self.rates.get(throttler)
        if allowed is None:
            return
        seen = self._seen[throttler] = [at for at in self._seen.get(throttler, []) if now - at < WINDOW_S]
        if len(seen) >= allowed:
            wait = str(max(1, round(WINDOW_S - (now - seen[0])) if seen else int(WINDOW_S)))
            names = {"Retry-After": wait, "X-RateLimit-Limit": str(allowed), "X-RateLimit-Remaining": "0"}
            headers = {
                f"{name}-{throttler}": value for name, value in {**names, "X-RateLimit-Reset": wait}.items()
            }
            raise ApiError(429, "ThrottlerException: Too Many Requests", headers)
        seen.append(now)

    def check_size(self, asked: dict[str, int], used: list[dict[str, int]]) -> None:
        """Raises ApiError for a machine that is too big, or for which there is no room left."""
        for name, value in asked.items():
            if not 1 <= value <= LARGEST[name]:
                raise ApiError(
                    400,
                    f"{name.capitalize()} request {value} exceeds maximum allowed per sandbox ({LARGEST[name]})",
                )
            if sum(one[name] for one in used) + value > self.quota[name]:
                raise ApiError(403, f"Total {name} limit exceeded. Maximum allowed: {self.quota[name]}")

    def check_network(self, *, rules: bool) -> None:
        if rules and self.tier < 3:
            raise ApiError(400, FIXED_NETWORK)
