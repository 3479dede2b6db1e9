"""Named points around every effect and commit, which tests arm to kill, stop or raise.

Unarmed they cost one dictionary look-up. Armed from `CRASH_POINTS` (`name=action`, comma-separated; actions `kill`,
`stop`, `raise`; `name=kill@3` acts at the third passage). A point acts once for a state directory, so that the process
that is started again gets past it. `stop` is how another process is killed at exactly this moment: the test waits until
this one stands still, kills, and lets it go on (SIGCONT).
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from app.domain.errors import SettingsError
from app.domain.steps import StepName

EFFECTS = (
    "start_commit", "ref", "open_pull", "status", "plan_comment", "questions", "check", "mirror", "sandbox", "spare", "push", "body", "ready",
    "review_request", "close", "delete_branch", "close_issue", "stop", "left", "delete", "effect.labels", "effect.notice",
    "effect.reaction", "effect.sub_issue", "effect.sub_issue_end", "effect.review_batch", "effect.review_reaction", "effect.remark_reaction",
    "effect.thread_answer", "effect.review_again",
)  # fmt: skip
"""What a worker does to GitHub or the sandbox provider."""

COMMITS = (
    "claim",
    "commit",
    "release",
    "intake",
    "lease",
    "review_message",
    "concluded",
    "archive",
    "forget_events",
    "relay",
    "guardian",
    "verdict_claim",
    "verdict",
)
"""What a worker commits; `concluded` has no point after it, since nothing follows."""

WEB_COMMITS = (
    "delivery",
    "events",
    "upload",
    "artifact",
    "message",
    "sent",
    "acknowledged",
    "reserve",
    "settle",
)
"""What the web process commits; the answer goes out after the second point."""

WORKER_POINTS: frozenset[str] = frozenset(
    f"{name}.{when}" for name in (*EFFECTS, *COMMITS, *StepName) for when in ("before", "after")
) - {"concluded.after"}

WEB_POINTS: frozenset[str] = frozenset(
    f"{name}.{when}" for name in WEB_COMMITS for when in ("before", "after")
)

POINTS = WORKER_POINTS | WEB_POINTS


class CrashPointReached(Exception):
    """What an armed `raise` raises."""


@dataclass
class _Armed:
    action: str
    passages_left: int


_armed: dict[str, _Armed] = {}
_marks: list[Path] = []


def arm(text: str, home: Path) -> None:
    """Arm the points named in `text`; which of them have acted is kept below `home`.

    Raises SettingsError for an unknown point or action.
    """
    _armed.clear()
    _marks[:] = [home / "crashed"]
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, what = entry.partition("=")
        action, _, count = what.partition("@")
        if name not in POINTS or action not in {"kill", "stop", "raise"} or not (count or "1").isdecimal():
            raise SettingsError(f"CRASH_POINTS: no such point or action: {entry}; it is for tests, unset it")
        if not (_marks[0] / name).exists():
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
    _marks[0].mkdir(parents=True, exist_ok=True)
    (_marks[0] / name).touch()
    if armed.action == "raise":
        raise CrashPointReached(name)
    os.kill(os.getpid(), signal.SIGKILL if armed.action == "kill" else signal.SIGSTOP)
