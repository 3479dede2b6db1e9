"""Primary rate limits: counted per installation, shown in headers, and exhaustible by tests."""

from dataclasses import dataclass, field

from simulators.github.auth import Principal
from simulators.github.clock import Clock
from simulators.github.errors import ApiError

PER_HOUR = 5000
ANONYMOUS_PER_HOUR = 60
WINDOW_S = 3600


@dataclass
class Window:
    """One caller's hour."""

    ends_at: float
    limit: int
    used: int = 0


@dataclass
class Limits:
    """Windows by caller. ``exhausted``: callers (installation ids, or ``*``) that have nothing left, until when."""

    clock: Clock
    windows: dict[str, Window] = field(default_factory=dict)
    exhausted: dict[str, float] = field(default_factory=dict)

    def window(self, principal: Principal | None) -> Window:
        """The caller's present window."""
        key = "anonymous"
        if principal is not None:
            key = str(principal.installation.id) if principal.installation else f"app-{principal.app.id}"
        now = self.clock.now().timestamp()
        found = self.windows.get(key)
        if found is None or found.ends_at <= now:
            found = Window(now + WINDOW_S, ANONYMOUS_PER_HOUR if principal is None else PER_HOUR)
            self.windows[key] = found
        until = max(self.exhausted.get(key, 0.0), self.exhausted.get("*", 0.0))
        if until > now:
            return Window(until, found.limit, found.limit)
        return found

    def headers(self, principal: Principal | None) -> dict[str, str]:
        """``X-RateLimit-*``."""
        window = self.window(principal)
        return {
            "X-RateLimit-Limit": str(window.limit),
            "X-RateLimit-Remaining": str(max(window.limit - window.used, 0)),
            "X-RateLimit-Reset": str(int(window.ends_at)),
            "X-RateLimit-Used": str(window.used),
            "X-RateLimit-Resource": "core",
        }

    def check(self, principal: Principal | None) -> None:
        """403 for a caller that has nothing left. Anonymous callers are counted but never refused."""
        window = self.window(principal)
        if principal is not None and window.used >= window.limit:
            who = f"installation ID {principal.installation.id}" if principal.installation else "this app"
            raise ApiError(403, f"API rate limit exceeded for {who}.")

    def count(self, principal: Principal | None) -> None:
        """One more request (conditional ones that end in 304 are not counted)."""
        self.window(principal).used += 1
