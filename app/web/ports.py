"""What the web process needs from the queue, and its limits: small protocols, so that tests bring their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from app.queue.jobs import JobName


class Doorbell(Protocol):
    """Tells a worker to look at something. May lose a ring; the sweep rings again."""

    async def ring(self, job: JobName, key: str, version: int = 0) -> bool:
        """Never raises; False when nobody could be told."""


class Bell(Protocol):
    """Wakes polls that wait for messages of one sandbox."""

    async def ring(self, sandbox_id: str, /) -> None:
        """Never raises."""

    def mark(self) -> int:
        """Taken before a look at the database: `wait(since=mark)` then misses no ring in between."""

    async def wait(self, sandbox_id: str, /, timeout_s: float, since: int | None = None) -> bool:
        """True when it rang within `timeout_s`, False otherwise, earlier while Redis is away. Never raises."""


class Ping(Protocol):
    """Whether Redis answers. Never raises."""

    async def __call__(self) -> bool: ...


@dataclass(frozen=True)
class Limits:
    """Caps of the HTTP edge. The defaults are the contract's where it names a number."""

    webhook_bytes: int = 25 * 1024 * 1024
    """GitHub sends nothing bigger than 25 MB; counted in binary so that its largest event is never refused."""
    webhook_shared_bytes: int = 256_000_000
    """What all large bodies together may take up while nobody knows yet who sent them."""
    webhook_body_s: float = 5.0
    webhook_store_s: float = 1.8
    """Answered 503 after this; the contract says within 2 s."""
    body_s: float = 20.0
    """For whole bodies of the other routes."""
    chunk_s: float = 30.0
    """For the next piece of an upload, and of the model's request."""
    upload_s: float = 900.0
    model_request_bytes: int = 32_000_000
    polls_per_sandbox: int = 4
    uploads_per_sandbox: int = 2
    calls_per_sandbox: int = 16
    """Model calls at once: the agent and its sub-agents."""
    look_every_s: float = 1.0
    """How often a waiting poll looks at the database though no bell rang."""
    events_per_sandbox: int = 200_000
    """Beyond this only the most important events of one sandbox are stored; an hour of work has some thousand."""
    events_per_s: float = 200.0
    events_burst: float = 5_000.0
    event_bytes_per_s: float = 1_000_000.0
    event_bytes_burst: float = 50_000_000.0
    upload_bytes_per_s: float = 10_000_000.0
    upload_bytes_burst: float = 1_000_000_000.0
    upstream_connect_s: float = 10.0
    upstream_read_s: float = 600.0
    """Silence of the model upstream that ends a call; the agent's own time limit is shorter (facts: 300 to 360 s)."""
