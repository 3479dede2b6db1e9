"""Faults that tests switch on: what matches, what goes wrong, how often."""

import re
from dataclasses import dataclass, field


@dataclass
class Fault:
    """One rule: ``method`` (``*``: any) and ``path`` (a regular expression searched in the path). ``skip`` lets that
    many pass first, ``times`` None: until removed. What happens, in this order: ``delay_s``; ``drop`` the connection or
    answer ``status`` with ``message`` and ``headers``, before doing what was asked, or after it with ``apply``.
    """

    id: int
    method: str = "*"
    path: str = ""
    times: int | None = None
    skip: int = 0
    delay_s: float = 0.0
    drop: bool = False
    apply: bool = False
    status: int | None = None
    message: str = "simulated fault"
    headers: dict[str, str] = field(default_factory=dict)
    hits: int = 0

    def takes(self, method: str, path: str) -> bool:
        """Whether the rule acts on a request; counts."""
        if self.method not in ("*", method) or not re.search(self.path, path):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times is not None and self.hits >= self.times:
            return False
        self.hits += 1
        return True
