"""Named points around every effect and commit, which tests arm to kill, stop or raise.

Unarmed they cost one dictionary look-up. Armed from `CRASH_POINTS` (`name=action`, comma-separated; actions `kill`,
`stop`, `raise`; `name=kill@3` acts at the third passage).
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass


class CrashPointReached(Exception):
    """What an armed `raise` raises."""


@dataclass
class _Armed:
    action: str
    passages_left: int


_armed: dict[str, _Armed] = {}


def arm(text: str) -> None:
    """Arm the points named in `text`. Raises ValueError for an unknown action."""
    _armed.clear()
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, what = entry.partition("=")
        action, _, count = what.partition("@")
        if action not in {"kill", "stop", "raise"}:
            raise ValueError(f"crash point {name}: no such action `{action}`")
        _armed[name] = _Armed(action, int(count or 1))


def crashpoint(name: str) -> None:
    """Do what this point is armed for, once."""
    armed = _armed.get(name)
    if armed is None:
        return
    armed.passages_left -= 1
    if armed.passages_left > 0:
        return
    del _armed[name]
    if armed.action == "raise":
        raise CrashPointReached(name)
    os.kill(os.getpid(), signal.SIGKILL if armed.action == "kill" else signal.SIGSTOP)
