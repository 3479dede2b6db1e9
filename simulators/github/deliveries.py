"""Webhooks: signing, sending once, remembering; and the levers tests have on them."""

import asyncio
import hashlib
import hmac
import json
import random
import time
import uuid
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import httpx

from simulators.github.model import App
from simulators.github.world import World

TIMEOUT_S = 10.0  # docs.github.com: a receiver has ten seconds


@dataclass
class Delivery:
    """One attempt to hand an event to an App; ``state`` is held, sending, sent or dropped."""

    id: int
    guid: str
    app_id: int
    event: str
    action: str | None
    installation_id: int | None
    repository_id: int | None
    payload: dict[str, Any]
    created_at: datetime
    redelivery: bool = False
    state: str = "sending"
    delivered_at: datetime | None = None
    duration_s: float = 0.0
    status: str = ""
    status_code: int = 0
    request_headers: dict[str, str] = field(default_factory=dict)
    response_headers: dict[str, str] = field(default_factory=dict)
    response_body: str = ""


@dataclass
class Lever:
    """What happens to new deliveries whose event matches (``*``: all).

    ``hold``: kept until released. ``drop``: never sent; ``record`` lists it as failed, else it is lost for good.
    ``duplicate``: sent twice under one GUID.
    """

    mode: str
    event: str = "*"
    times: int | None = None
    record: bool = False

    def takes(self, event: str) -> bool:
        """Whether this lever acts on the event; counts down ``times``."""
        if self.times == 0 or self.event not in ("*", event):
            return False
        if self.times is not None:
            self.times -= 1
        return True


def encode(payload: dict[str, Any]) -> bytes:
    """Compact JSON, as GitHub sends it."""
    return json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def signed_headers(app: App, delivery: Delivery, body: bytes) -> dict[str, str]:
    """All headers GitHub sends with a delivery."""
    headers = {
        "Accept": "*/*",
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/51e2f1a",
        "X-GitHub-Delivery": delivery.guid,
        "X-GitHub-Event": delivery.event,
        "X-GitHub-Hook-ID": str(app.hook_id),
        "X-GitHub-Hook-Installation-Target-ID": str(app.id),
        "X-GitHub-Hook-Installation-Target-Type": "integration",
    }
    if app.webhook_secret:
        secret = app.webhook_secret.encode()
        headers["X-Hub-Signature"] = "sha1=" + hmac.new(secret, body, hashlib.sha1).hexdigest()
        headers["X-Hub-Signature-256"] = "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()
    return headers


class Outbox:
    """Sends deliveries from background tasks: prompt, but in no guaranteed order, and never again by itself."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.deliveries: dict[int, Delivery] = {}
        self.levers: list[Lever] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._client: httpx.AsyncClient | None = None

    def add(self, app: App, delivery: Delivery) -> None:
        """Takes a new delivery; must be called on the event loop."""
        self.deliveries[delivery.id] = delivery
        lever = next((found for found in self.levers if found.takes(delivery.event)), None)
        mode = lever.mode if lever else "send"
        if mode == "hold":
            delivery.state = "held"
        elif mode == "drop":
            delivery.state = "sent" if lever and lever.record else "dropped"
            delivery.status, delivery.delivered_at = "failed to connect to host", self.world.now()
        else:
            for _ in range(2 if mode == "duplicate" else 1):
                self._start(app, delivery)

    def redeliver(self, app: App, old: Delivery) -> Delivery:
        """A new attempt under the same GUID."""
        again = Delivery(
            self.world.new_id(),
            old.guid,
            old.app_id,
            old.event,
            old.action,
            old.installation_id,
            old.repository_id,
            old.payload,
            self.world.now(),
            redelivery=True,
        )
        self.deliveries[again.id] = again
        self._start(app, again)
        return again

    def release(self, *, shuffle: bool = False, seed: int = 0) -> int:
        """Sends everything held, in order or shuffled; how many."""
        held = [found for found in self.deliveries.values() if found.state == "held"]
        if shuffle:
            random.Random(seed).shuffle(held)
        for delivery in held:
            delivery.state = "sending"
            self._start(self.world.apps[delivery.app_id], delivery)
        return len(held)

    def new_delivery(
        self,
        app: App,
        event: str,
        payload: dict[str, Any],
        installation_id: int | None,
        repository_id: int | None,
    ) -> Delivery:
        """A delivery with a fresh GUID, not yet added."""
        return Delivery(
            self.world.new_id(),
            str(uuid.uuid4()),
            app.id,
            event,
            payload.get("action"),
            installation_id,
            repository_id,
            payload,
            self.world.now(),
        )

    def pending(self) -> int:
        """Deliveries on their way."""
        return len(self._tasks)

    def _start(self, app: App, delivery: Delivery) -> None:
        task = asyncio.get_running_loop().create_task(self._send(app, delivery))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, app: App, delivery: Delivery) -> None:
        body = encode(delivery.payload)
        delivery.request_headers = signed_headers(app, delivery, body)
        started = time.monotonic()
        try:
            if not app.webhook_url:
                raise httpx.ConnectError("the App has no webhook URL")
            answer = await self._http().post(app.webhook_url, content=body, headers=delivery.request_headers)
        except httpx.TimeoutException:
            delivery.status, delivery.status_code = "timed out", 0
        except (httpx.HTTPError, httpx.InvalidURL):
            delivery.status, delivery.status_code = "failed to connect to host", 0
        else:
            delivery.status_code = answer.status_code
            delivery.status = "OK" if answer.is_success else f"Invalid HTTP Response: {answer.status_code}"
            delivery.response_headers = dict(answer.headers)
            delivery.response_body = answer.text[:10_000]
        delivery.duration_s = round(time.monotonic() - started, 2)
        delivery.delivered_at = self.world.now()
        delivery.state = "sent"

    def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False)
        return self._client

    async def close(self) -> None:
        """Ends what is still being sent."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()
            self._client = None
