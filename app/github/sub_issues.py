"""Sub-issues: one issue of ours below another, found again by its marker.

https://docs.github.com/rest/issues/sub-issues
"""

from __future__ import annotations

from app.domain.errors import Gone, Refused, Unexpected
from app.domain.ids import IssueNumber
from app.domain.ports import Identity, RepoRef
from app.github.apps import Apps
from app.github.clients import Ask, work_on
from app.github.family import check_body, repo_path
from app.github.parts import IssuePart

_NEWEST = 100
"""How many of our own newest issues are looked at for one that was made and not put below its parent."""


class SubIssues(Apps):
    async def ensure_sub_issue(
        self, repo: RepoRef, parent: IssueNumber, marker: str, title: str, body: str
    ) -> IssueNumber:
        """The issue of ours with `marker` below `parent`: found there, else among our newest, else a new one.

        Its text stays as people left it. Where GitHub knows no sub-issues (an older server) it stands alone: its text
        names the parent.
        """
        check_body(body)
        if marker not in body:
            raise Unexpected("the issue's text lacks its marker, so it could not be found again")
        us = await self._identity_by(repo.installation_id)
        found = await self._below(repo, parent, marker, us)
        if found is not None:
            return IssueNumber(found.number)
        issue = await self._unattached(repo, marker, us)
        if issue is None:
            text = {"title": title, "body": body}
            issue = await self._api.fetch(
                IssuePart, Ask("POST", repo_path(repo, "issues"), work_on(repo), json=text)
            )
        path = repo_path(repo, "issues", parent, "sub_issues")
        try:
            await self._api.call(Ask("POST", path, work_on(repo), json={"sub_issue_id": issue.id}))
        except Gone:
            return IssueNumber(issue.number)
        except Refused as refused:
            # Another worker put it there meanwhile, or a person below another parent.
            if not refused.code or await self._below(repo, parent, marker, us) is None:
                raise
        return IssueNumber(issue.number)

    async def ensure_sub_issue_closed(self, repo: RepoRef, parent: IssueNumber, marker: str) -> None:
        """As completed. Nothing happens when a person removed it."""
        us = await self._identity_by(repo.installation_id)
        issue = await self._below(repo, parent, marker, us) or await self._unattached(repo, marker, us)
        if issue is None or issue.state == "closed":
            return
        body = {"state": "closed", "state_reason": "completed"}
        await self._api.call(Ask("PATCH", repo_path(repo, "issues", issue.number), work_on(repo), json=body))

    async def _below(self, repo: RepoRef, parent: IssueNumber, marker: str, us: Identity) -> IssuePart | None:
        path = repo_path(repo, "issues", parent, "sub_issues")
        try:
            listed = await self._api.pages(IssuePart, Ask("GET", path, work_on(repo)))
        except Gone:
            return None
        return next((issue for issue in listed if _is_ours(issue, marker, us)), None)

    async def _unattached(self, repo: RepoRef, marker: str, us: Identity) -> IssuePart | None:
        params: dict[str, str | int] = {
            "creator": us.bot_login,
            "state": "all",
            "per_page": _NEWEST,
            "sort": "created",
        }
        ask = Ask("GET", repo_path(repo, "issues"), work_on(repo), params=params, patient=True)
        listed = await self._api.fetch(list[IssuePart], ask)
        return next((issue for issue in listed if _is_ours(issue, marker, us)), None)


def _is_ours(issue: IssuePart, marker: str, us: Identity) -> bool:
    """Anybody can type a marker; only issues that we opened are trusted to carry one."""
    mine = issue.user is not None and issue.user.id == us.bot_user_id
    return mine and issue.pull_request is None and marker in (issue.body or "")
