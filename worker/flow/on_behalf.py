"""Calls of the sandbox API for a sandbox that can't make them any more, with its own token and under its own rules."""

from __future__ import annotations

import asyncio
import secrets
import time
from datetime import timedelta
from pathlib import Path

import httpx
import structlog

from app.db.models import Sandbox
from app.domain.errors import RetryAt
from sandbox_payload.wire.relay import RelayedCall
from worker.flow.order import sandbox_token
from worker.parts import Door, Parts

log = structlog.get_logger("worker.on_behalf")

AWAY_LIMIT_S = 8.0
"""How long an app that can't be reached is asked again at once: it may be starting."""
AWAY_S = 2.0
AWAY_PAUSE = timedelta(seconds=20)


class AppAway(RetryAt):
    """The app can't be reached, or asks to wait. Nothing that was to be handed in may be given up for that."""


class OnBehalf:
    """For one sandbox. Raises AppAway from AWAY_LIMIT_S after this was made."""

    def __init__(self, parts: Parts, door: Door, sandbox: Sandbox) -> None:
        self._door = door
        self._clock = parts.clock
        self._sandbox_id = sandbox.id
        self._token = sandbox_token(parts.token_key, sandbox.id)
        self._until = time.monotonic() + AWAY_LIMIT_S

    async def post_events(self, body: bytes) -> bool:
        """True when the app has stored them, now or before."""
        return await self._ask("POST", "/events", body, len(body), None)

    async def put_artifact(self, name: str, path: Path, digest: str, size: int) -> bool:
        """True when the app has taken it in."""
        return await self._ask("PUT", f"/artifacts/{name}", path, size, digest)

    async def _ask(self, method: str, path: str, body: bytes | Path, size: int, digest: str | None) -> bool:
        told = {"sandbox_id": self._sandbox_id, "call": path, "size": size}
        while True:
            call = RelayedCall(call=secrets.token_hex(8), method=method, path=path, size=size, sha256=digest)
            try:
                answer = await self._door.ask(self._sandbox_id, self._token, call, body)
            except httpx.TransportError as error:
                status, detail = 503, type(error).__name__
            else:
                status, detail = answer.status, answer.body[:200]
            if 200 <= status < 300:
                log.info("left.handed_in", **told)
                return True
            if status not in {408, 425, 429} and status < 500:
                log.warning("left.not_taken", **told, status=status, detail=detail)
                return False
            if time.monotonic() > self._until:
                log.warning("left.app_away", **told, status=status, detail=detail)
                raise AppAway(f"the app did not take it ({status})", self._clock() + AWAY_PAUSE)
            await asyncio.sleep(AWAY_S)
