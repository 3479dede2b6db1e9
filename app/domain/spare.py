"""What a worker needs to have sandboxes ready before they are ordered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class SandboxSize:
    """How large sandboxes are, and what they may reach. Fields as in `ports.SandboxOrder`."""

    memory_gb: int
    cpu: int
    disk_gb: int
    time_limit_s: int
    allow_hosts: Sequence[str] = ()


@dataclass(frozen=True)
class HandOver:
    """What to do right before a spare's keeper is told of its order, and right after it has taken that over."""

    before: Callable[[], None] = lambda: None
    after: Callable[[], None] = lambda: None


@runtime_checkable
class KeepsSpare(Protocol):
    """A provider that can have a sandbox ready before it is ordered."""

    async def keep_spare(self, size: SandboxSize, at: HandOver) -> None:
        """Until it is cancelled. Orders of any other size are made as they come."""
