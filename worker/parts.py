"""What every piece of the worker is handed: made once by the composition root, no globals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from app.db.cipher import Cipher
from app.db.engine import Database
from app.db.specs import LEASE
from app.domain.labels import LabelNames
from app.domain.model_price import ModelPrice
from app.domain.ports import GitHub, Identity, Sandboxes
from app.domain.repo_settings import OperatorLimits
from app.domain.supervision import Thresholds
from app.domain.supply import Supply
from sandbox_payload.wire.relay import RelayedAnswer, RelayedCall


class Door(Protocol):
    """The app's sandbox API, for calls on behalf of a sandbox."""

    async def ask(
        self, sandbox_id: str, token: str, call: RelayedCall, body: bytes | Path | None, /
    ) -> RelayedAnswer:
        """The app's answer, whatever it is. Raises httpx.TransportError when there is none."""


class Ring(Protocol):
    """Wakes the poll of a sandbox for its messages. May be lost: polls look by themselves too."""

    async def __call__(self, sandbox_id: str, /) -> None: ...


async def ring_nobody(sandbox_id: str) -> None:
    """Where nobody can hear it."""
    del sandbox_id


@dataclass(frozen=True)
class Limits:
    """What the operator allows one sandbox."""

    memory_gb: int
    cpu: int
    disk_gb: int
    model: str | None
    models: tuple[str, ...]
    """What a repository may choose from."""
    max_budget_usd: float
    max_turns: int
    task_timeout_s: int
    idle_s: int
    allow_hosts: tuple[str, ...]
    permission_mode: str = "acceptEdits"
    memory_max_gb: int | None = None
    """Up to this a sandbox grows that ran out of memory; None: it does not."""
    restarts: int = 2
    """How often a task starts again whose sandbox was lost."""
    thresholds: Thresholds = field(default_factory=Thresholds)
    supply: Supply = field(default_factory=Supply)

    @property
    def max_attempts(self) -> int:
        """Sandboxes that one task, or planning, may use up."""
        return self.restarts + 1

    @property
    def operator(self) -> OperatorLimits:
        """What no repository may exceed."""
        return OperatorLimits(
            budget_usd=self.max_budget_usd, memory_gb=self.memory_gb, cpu=self.cpu, disk_gb=self.disk_gb,
            model=self.model,
        )  # fmt: skip


@dataclass(frozen=True)
class ModelKeys:
    """For agents that can't reach the gateway. `operators`: the operator's key, "" when there is none; `may_enter`: keys
    may be put into such a sandbox.
    """

    cipher: Cipher
    base_url: str
    operators: str = field(repr=False)
    may_enter: bool


@dataclass(frozen=True)
class VerdictRules:
    """How a model is asked about running agents: which, after how many calls of tools (`every`), and what all of it may
    cost for one spec. `base_url` and `operators` (key): the operator's, "" when there is none.
    """

    model: str
    price: ModelPrice
    every: int
    budget_usd: float
    cipher: Cipher
    base_url: str
    operators: str = field(repr=False)


@dataclass(frozen=True)
class Parts:
    db: Database
    github: GitHub
    sandboxes: Sandboxes
    clock: Callable[[], datetime]
    labels: LabelNames
    limits: Limits
    home: Path
    host_id: str
    worker_id: str
    instance: str
    """Short name of this Issuewright instance: the owner label of its sandboxes."""
    web_url: str
    """Base of GitHub's pages, for links to branches."""
    token_key: bytes
    """Derives sandbox tokens; the same in every worker of the instance."""
    model_ready: bool
    secrets: tuple[str, ...]
    """Exact secrets of ours that must never leave, for the scan of results."""
    model_keys: ModelKeys | None = None
    """None where every sandbox reaches the gateway."""
    verdict_rules: VerdictRules | None = None
    """None where no model is asked about agents."""
    ring: Ring = ring_nobody
    door: Door | None = None
    """None where no sandbox's calls have to be made for it."""
    keep_events: timedelta | None = None
    """How long after a spec's end its events stay in the database; None: for ever."""
    lease: timedelta = LEASE
    """How long a spec stays with a worker that says nothing; it says so three times as often."""

    @property
    def local_host(self) -> str | None:
        """The host that owns this provider's sandboxes, None for a remote provider."""
        return None if self.sandboxes.kind == "daytona" else self.host_id

    async def identity(self) -> Identity:
        return await self.github.fetch_identity()
