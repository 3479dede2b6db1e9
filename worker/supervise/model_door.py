"""The guardian's way to the model: with the same key as the agent's own calls, to the only address that key may be sent to.

Bounded in time and size. Nothing is tried again: what was not answered is no verdict.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import httpx
import structlog

from app.db.cipher import Unreadable
from app.db.credentials import find_stored_of_spec, open_credential
from app.domain.credentials import CredentialKind
from app.observability.redaction import register_secret
from worker.parts import Parts, VerdictRules

log = structlog.get_logger("worker.verdicts")

LONGEST_CALL_S = 60.0
_MAX_ANSWER_BYTES = 200_000
_VERSION = "2023-06-01"


@dataclass(frozen=True)
class Key:
    secret: str = field(repr=False)
    base_url: str


@dataclass(frozen=True)
class Reply:
    """What came back. `status` is None when nothing did; then `may_cost` says whether the question was sent."""

    status: int | None
    body: bytes = b""
    may_cost: bool = True


class ModelDoor:
    """`longest_call_s`: for a call from its first to its last byte."""

    def __init__(self, parts: Parts, rules: VerdictRules, longest_call_s: float) -> None:
        self._parts = parts
        self._rules = rules
        self._longest_call_s = longest_call_s
        # No environment and no redirects: the key goes to one address.
        self._http = httpx.AsyncClient(
            timeout=httpx.Timeout(longest_call_s, connect=5.0), trust_env=False, follow_redirects=False
        )

    async def find_key(self, spec_id: str) -> Key | None:
        """Of the person who labeled, else of the installation, else the operator's. None when there is none or the
        nearest one can't be read: somebody else's is not used in its place.
        """
        async with self._parts.db.read() as session:
            row = await find_stored_of_spec(session, CredentialKind.MODEL, spec_id)
        if row is None:
            return Key(self._rules.operators, self._rules.base_url) if self._rules.operators else None
        try:
            found = open_credential(row, self._rules.cipher)
        except Unreadable:
            return None
        register_secret(found.secret)
        return Key(found.secret, found.base_url or self._rules.base_url)

    async def ask(self, key: Key, question: bytes) -> Reply:
        headers = {
            "accept": "application/json",
            "anthropic-version": _VERSION,
            "content-type": "application/json",
            "x-api-key": key.secret,
        }
        url = f"{key.base_url}/v1/messages"
        try:
            async with asyncio.timeout(self._longest_call_s):
                async with self._http.stream("POST", url, content=question, headers=headers) as answer:
                    body = bytearray()
                    async for piece in answer.aiter_bytes():
                        body += piece
                        if len(body) > _MAX_ANSWER_BYTES:
                            return Reply(None)
                    return Reply(answer.status_code, bytes(body))
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            log.warning("model.unreachable", error=type(error).__name__)
            return Reply(None, may_cost=False)
        except (httpx.HTTPError, TimeoutError) as error:
            log.warning("model.broke_off", error=type(error).__name__)
            return Reply(None)

    async def aclose(self) -> None:
        await self._http.aclose()
