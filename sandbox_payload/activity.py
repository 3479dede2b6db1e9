"""What the agent is doing right now: written by the reader of its stream, read by everyone else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RunningTool:
    name: str
    started: float
    """time.monotonic()"""

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.started


@dataclass
class Activity:
    started: float = field(default_factory=time.monotonic)
    round: int = 1
    turn: int = 1
    busy: bool = False
    """The command line says that a turn is running."""
    background: dict[str, str] = field(default_factory=dict)
    """Commands and subagents that run beside or after a turn: task id to description."""
    wake_expected: bool = False
    """The last background task just ended; the command line is about to start a turn for it."""
    tools: dict[str, RunningTool] = field(default_factory=dict)
    session_id: str | None = None
    last_text: str = ""
    cost_before_usd: float = 0.0
    """What the session had cost in earlier sandboxes."""
    cost_usd: float = 0.0
    """What it has cost in this one, as the agent's command line reckons."""
    turns_of_model: int = 0
    changed_at: float = field(default_factory=time.monotonic)

    @property
    def tool(self) -> RunningTool | None:
        """The tool that has been running longest."""
        return min(list(self.tools.values()), key=lambda tool: tool.started, default=None)

    @contextmanager
    def commanding(self, name: str) -> Iterator[None]:
        """While a command of the repository's settings runs, which is work as a tool's is."""
        self.tools[name] = RunningTool(name, time.monotonic())
        try:
            yield
        finally:
            self.tools.pop(name, None)

    @property
    def at_rest(self) -> bool:
        return not self.busy and not self.background

    def touch(self) -> None:
        self.changed_at = time.monotonic()

    @property
    def unchanged_s(self) -> float:
        return time.monotonic() - self.changed_at
