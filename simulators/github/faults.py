"""Faults that tests switch on: what matches, what goes wrong, how often."""

import re
from dataclasses import dataclass, field

SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."


@dataclass
class Fault:
    """One rule.

    ``method`` (``*``: any; ``WRITE``: everything but GET and HEAD), ``path`` (a regular expression searched in the
    path), ``token`` (``*``, ``app``, ``installation``, ``git``, ``none``). ``times`` None: until removed;
    ``skip``: let that many pass first. What happens, in this order: ``delay_s``; ``drop`` the connection; ``status``
    (with ``headers`` and ``message``) instead of doing it, or, with ``apply``, after doing it; ``truncate`` the body
    to that many bytes.
    """

    id: int
    method: str = "*"
    path: str = ""
    token: str = "*"
    times: int | None = None
    skip: int = 0
    delay_s: float = 0.0
    drop: bool = False
    apply: bool = False
    status: int | None = None
    message: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    truncate: int | None = None
    hits: int = 0

    def takes(self, method: str, path: str, token: str) -> bool:
        """Whether the rule acts on a request; counts."""
        write = self.method == "WRITE" and method not in ("GET", "HEAD")
        if not write and self.method not in ("*", method):
            return False
        if self.token not in ("*", token) or not re.search(self.path, path):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times is not None and self.hits >= self.times:
            return False
        self.hits += 1
        return True


class Faults:
    """All rules, oldest first; the first that matches acts."""

    def __init__(self) -> None:
        self.rules: list[Fault] = []

    def pick(self, method: str, path: str, token: str) -> Fault | None:
        """The rule for a request."""
        return next((rule for rule in self.rules if rule.takes(method, path, token)), None)
