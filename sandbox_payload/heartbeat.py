"""A sign of life every few seconds from a thread of its own, whatever the agent and the event loop do."""

from __future__ import annotations

import threading
import time

from sandbox_payload.activity import Activity
from sandbox_payload.processes import resident_mb
from sandbox_payload.spool import Spool
from sandbox_payload.wire import EventType


class Heartbeat:
    def __init__(self, spool: Spool, activity: Activity, every_s: float) -> None:
        self._spool = spool
        self._activity = activity
        self._every_s = every_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            activity, tool = self._activity, self._activity.tool
            self._spool.append(
                EventType.HEARTBEAT,
                {
                    "uptime_s": round(time.monotonic() - activity.started, 1),
                    "round": activity.round,
                    "turn": activity.turn,
                    "busy": activity.busy,
                    "tool": tool.name if tool else None,
                    "tool_age_s": round(tool.age_s, 1) if tool else None,
                    "background": len(activity.background),
                    "rss_mb": resident_mb(),
                    "spool_depth": self._spool.depth,
                },
            )
