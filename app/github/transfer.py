"""What goes over git instead of the API: mirrors in, results out, with a token that sees contents only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from app.domain.errors import Denied, Gone, OutsideError, Refused, RetryAt
from app.domain.ids import RepoId
from app.domain.ports import RepoRef
from app.git.mirror import MirrorFailed, update_mirror
from app.git.push import PushRejected, push
from app.github.apps import Apps
from app.github.errors import SERVER_PAUSE
from app.github.tokens import Purpose, Scope

Done = TypeVar("Done")


class Transfer(Apps):
    async def ensure_pushed(
        self, repo: RepoRef, quarantine: Path, sha: str, branch: str, expected_sha: str
    ) -> str:
        """Push `sha` from the bare repository `quarantine` to `branch`, without force, only onto `expected_sha`.

        Refused carries the server's message; its code is `moved`, `protected`, `workflow`, `secret` or `rejected`.
        """
        url = await self._git_url(repo)
        await self._api.pace.before_write(repo.installation_id)
        return await self._with_token(
            Scope(repo.installation_id, Purpose.PUSH, RepoId(repo.repo_id)),
            lambda token: push(quarantine, url, sha, branch, expected_sha, token),
        )

    async def fetch_mirror(self, repo: RepoRef, mirror: Path) -> None:
        """Bring the bare mirror at `mirror` up to date. Refused (`empty_repository`) when there is no branch yet."""
        url = await self._git_url(repo)
        await self._with_token(
            Scope(repo.installation_id, Purpose.FETCH, RepoId(repo.repo_id)),
            lambda token: update_mirror(mirror, url, token),
        )

    async def _git_url(self, repo: RepoRef) -> str:
        """Under the name it has now: git's own redirects could lead to a token's going elsewhere."""
        found = await self.fetch_repository(repo)
        return self._api.access.git_url(f"{found.owner}/{found.name}")

    async def _with_token(self, scope: Scope, transfer: Callable[[str], Awaitable[Done]]) -> Done:
        """As every call: a token that is refused is replaced once."""
        token = await self._api.tokens.fetch(scope)
        try:
            return await transfer(token.value)
        except (MirrorFailed, PushRejected) as failed:
            if not _is_denied(failed):
                raise self._verdict(failed) from None
        self._api.tokens.drop(scope, token)
        token = await self._api.tokens.fetch(scope)
        try:
            return await transfer(token.value)
        except (MirrorFailed, PushRejected) as failed:
            raise self._verdict(failed) from None

    def _verdict(self, failed: MirrorFailed | PushRejected) -> OutsideError:
        kind = failed.kind if isinstance(failed, MirrorFailed) else failed.code
        verdicts: dict[str, OutsideError] = {
            "denied": Denied(failed.message, reason="permission"),
            "gone": Gone(failed.message),
            "empty": Refused(failed.message, code="empty_repository"),
            "retry": RetryAt(failed.message, self._api.clock() + SERVER_PAUSE),
        }
        return verdicts.get(kind) or Refused(failed.message, code=kind)


def _is_denied(failed: MirrorFailed | PushRejected) -> bool:
    return (failed.kind if isinstance(failed, MirrorFailed) else failed.code) == "denied"
