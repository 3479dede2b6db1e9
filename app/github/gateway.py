"""All that Issuewright reads from and writes to GitHub: `app.domain.ports.GitHub`, in one object per process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.github.access import Clock, GitHubAccess
from app.github.checks import Checks
from app.github.clients import Api, CallSeen, OnCall
from app.github.hook_deliveries import HookDeliveries
from app.github.issues import Issues
from app.github.other_checks import OtherChecks
from app.github.pace import Pace
from app.github.pulls import Pulls
from app.github.refs import Refs
from app.github.reviews import Reviews
from app.github.spoken import SpokenWords
from app.github.sub_issues import SubIssues
from app.github.transfer import Transfer

__all__ = ["CallSeen", "GitHubAccess", "GitHubGateway", "OnCall"]


class GitHubGateway(
    Issues, SubIssues, Refs, Pulls, Reviews, SpokenWords, Checks, OtherChecks, Transfer, HookDeliveries
):
    """Implements `ports.GitHub`. Safe to share by all tasks of one event loop; close it with `aclose`.

    `clock` gives the time now (aware UTC), `pace` holds calls back per installation, `on_call` sees every request.
    """

    def __init__(self, access: GitHubAccess, clock: Clock, pace: Pace, on_call: OnCall) -> None:
        super().__init__(Api(access, clock, pace, on_call))

    def warm_up(self) -> None:
        """Load the client library now (0.3 s, in any thread), so that the first call does not wait for it."""
        self._api.load()

    async def aclose(self) -> None:
        await self._api.aclose()


if TYPE_CHECKING:
    from app.domain.ports import GitHub

    _IMPLEMENTS: type[GitHub] = GitHubGateway
