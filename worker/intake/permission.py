"""What people may do, remembered for a minute: a conversation asks about the same few again and again."""

from __future__ import annotations

from datetime import datetime, timedelta

from app.domain.ports import RepoRef, User
from worker.parts import Parts

KEPT = timedelta(seconds=60)
MOST = 1_000


class Permissions:
    """One per process. By numeric ids, so a new name changes nothing."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._known: dict[tuple[int, int], tuple[bool, datetime]] = {}

    async def may_write(self, repo: RepoRef, user: User) -> bool:
        """Raises what the gateway raises when GitHub can't be asked."""
        key, now = (int(repo.repo_id), int(user.user_id)), self._parts.clock()
        known = self._known.get(key)
        if known is not None and timedelta(0) <= now - known[1] < KEPT:
            return known[0]
        answer = (await self._parts.github.fetch_permission(repo, user)).may_write
        self._known.pop(key, None)
        self._known[key] = (answer, now)
        while len(self._known) > MOST:
            del self._known[next(iter(self._known))]
        return answer
