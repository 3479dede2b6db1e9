"""The operator API without a server: the same app, asked within this process, over the same database.

So a command shows exactly what the API answers, also while nothing runs.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from app.domain.errors import IssuewrightError

if TYPE_CHECKING:
    import httpx

    from app.settings import Settings


class NotShown(IssuewrightError):
    """The API refused; the text is its own."""


class Operator:
    """What the commands ask for. Paths are below /api/v1."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def get(self, path: str, **query: Any) -> Any:
        """The answer's JSON. Raises NotShown with the API's own words."""
        given = {name: value for name, value in query.items() if value is not None}
        answer = await self._client.get(path, params=given)
        if answer.is_success:
            return answer.json()
        raise _refusal(answer)

    async def post(self, path: str, ask: Any) -> Any:
        """`ask` as JSON; the answer's JSON. Raises NotShown."""
        answer = await self._client.post(path, json=ask)
        if answer.is_success:
            return answer.json()
        raise _refusal(answer)

    async def stream(self, path: str) -> AsyncIterator[bytes]:
        """The answer's bytes. Raises NotShown."""
        async with self._client.stream("GET", path) as answer:
            if not answer.is_success:
                await answer.aread()
                raise _refusal(answer)
            async for piece in answer.aiter_bytes():
                yield piece


@asynccontextmanager
async def operator(settings: Settings) -> AsyncIterator[Operator]:
    """Raises SettingsError when the database is not at this release's schema."""
    from app.db.schema import require_current_schema

    await require_current_schema(settings.database)

    import httpx
    from pydantic import SecretStr

    from app.main import build_parts, close, create_app
    from app.queue.embedded import find_running

    token = secrets.token_urlsafe(32)
    redis_url = settings.redis_url or find_running(settings.issuewright_home)
    parts = build_parts(settings.model_copy(update={"api_token": SecretStr(token)}), redis_url)
    transport = httpx.ASGITransport(create_app(parts.settings, parts))
    try:
        async with httpx.AsyncClient(
            transport=transport,
            base_url="http://issuewright/api/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
        ) as client:
            yield Operator(client)
    finally:
        await close(parts)


def _refusal(answer: httpx.Response) -> NotShown:
    try:
        problem = answer.json()
        return NotShown(str(problem.get("detail") or problem.get("title")))
    except (ValueError, AttributeError):
        return NotShown(f"the operator API answered {answer.status_code}")
