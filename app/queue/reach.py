"""Whether a Redis does what the queue needs: takes a value and gives it back."""

from __future__ import annotations

import secrets
from contextlib import aclosing

from redis.asyncio import Redis
from redis.exceptions import RedisError

_TIMEOUT_S = 3.0
_KEPT_MS = 5_000


async def try_redis(url: str) -> str:
    """Why it can't be used (no server, wrong password, read-only, out of memory); empty when it can. Never raises."""
    word = secrets.token_hex(8)
    key = f"issuewright:doctor:{word}"
    client = Redis.from_url(url, socket_connect_timeout=_TIMEOUT_S, socket_timeout=_TIMEOUT_S)
    async with aclosing(client):
        try:
            await client.set(key, word, px=_KEPT_MS)
            found = await client.getdel(key)
        except (RedisError, OSError) as error:
            return str(error) or type(error).__name__
    return "" if found == word.encode() else "it gave back another value than it was given"
