"""Pull requests."""

from __future__ import annotations

from app.domain.errors import Refused
from app.domain.ids import RepoId
from app.domain.ports import PullRequest, RepoRef
from app.github.clients import Api, Ask, work_on
from app.github.family import Family, check_body, repo_path, same_text
from app.github.parts import PullPart

_MARK_READY = """
mutation($id: ID!) {
  markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { isDraft } }
}
"""


class Pulls(Family):
    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._without_drafts: set[RepoId] = set()

    async def fetch_pull(self, repo: RepoRef, number: int) -> PullRequest:
        return _pull(await self._part(repo, number))

    async def ensure_pull(self, repo: RepoRef, *, head: str, base: str, title: str, body: str) -> PullRequest:
        """The open pull request of that head branch, else a new draft (not a draft where the plan has none).

        Refused with `no_commits`, `missing_base` or GitHub's own code.
        """
        check_body(body)
        found = await self._open_pull(repo, head, {"head": f"{repo.owner}:{head}"})
        if found is not None:
            return _pull(found)
        wanted = {"head": head, "base": base, "title": title, "body": body}
        try:
            return await self._new_pull(repo, wanted)
        except Refused as refused:
            # Made by somebody else in between, or not found above because the owner has another name now.
            found = await self._open_pull(repo, head, {}) if refused.code == "already_exists" else None
            if found is None:
                raise
            return _pull(found)

    async def _open_pull(self, repo: RepoRef, head: str, narrowed: dict[str, str]) -> PullPart | None:
        params = {"state": "open", "sort": "created", "direction": "asc", **narrowed}
        listed = await self._api.pages(PullPart, Ask("GET", repo_path(repo, "pulls"), work_on(repo), params))
        # A fork may have a branch of the same name.
        ours = [
            pull
            for pull in listed
            if pull.head.ref == head and pull.head.repo is not None and pull.head.repo.id == repo.repo_id
        ]
        return min(ours, key=lambda pull: pull.number, default=None)

    async def _new_pull(self, repo: RepoRef, wanted: dict[str, str]) -> PullRequest:
        path, scope = repo_path(repo, "pulls"), work_on(repo)
        # Remembered, so that the second write of this method can be put off without trying the first again.
        draft = repo.repo_id not in self._without_drafts
        try:
            body = {**wanted, "draft": draft}
            return _pull(await self._api.fetch(PullPart, Ask("POST", path, scope, json=body)))
        except Refused as refused:
            if refused.code != "drafts_unsupported" or not draft:
                raise
        self._without_drafts.add(repo.repo_id)
        return await self._new_pull(repo, wanted)

    async def ensure_pull_body(self, repo: RepoRef, number: int, body: str) -> None:
        """Sets the whole text. What people added is kept by whoever renders it from the live one."""
        check_body(body)
        found = await self._part(repo, number)
        if not same_text(found.body or "", body):
            await self._change(repo, number, {"body": body})

    async def ensure_pull_ready(self, repo: RepoRef, pull: PullRequest) -> None:
        """Ends the draft. Only GraphQL can. Refused (`closed`) when it is no longer open."""
        found = await self._part(repo, pull.number)
        if not found.draft:
            return
        if found.state != "open":
            raise Refused("the pull request is closed", code="closed")
        await self._api.graphql(work_on(repo), _MARK_READY, {"id": found.node_id})

    async def ensure_pull_closed(self, repo: RepoRef, number: int) -> None:
        """No-op when it is closed or merged already."""
        found = await self._part(repo, number)
        if found.state != "closed":
            await self._change(repo, number, {"state": "closed"})

    async def ensure_review_requested(self, repo: RepoRef, number: int, login: str) -> bool:
        """False when GitHub refuses that person as a reviewer (no collaborator, or the author)."""
        found = await self._part(repo, number)
        if any(reviewer.login.casefold() == login.casefold() for reviewer in found.requested_reviewers):
            return True
        path = repo_path(repo, "pulls", number, "requested_reviewers")
        try:
            await self._api.call(Ask("POST", path, work_on(repo), json={"reviewers": [login]}))
        except Refused:
            return False
        return True

    async def _part(self, repo: RepoRef, number: int) -> PullPart:
        ask = Ask("GET", repo_path(repo, "pulls", number), work_on(repo), patient=True)
        return await self._api.fetch(PullPart, ask)

    async def _change(self, repo: RepoRef, number: int, body: dict[str, object]) -> None:
        await self._api.call(Ask("PATCH", repo_path(repo, "pulls", number), work_on(repo), json=body))


def _pull(part: PullPart) -> PullRequest:
    return PullRequest(
        number=part.number,
        node_id=part.node_id,
        state=part.state,
        draft=bool(part.draft),
        merged=part.is_merged,
        title=part.title,
        body=part.body or "",
        head_ref=part.head.ref,
        head_sha=part.head.sha,
        base_ref=part.base.ref,
        html_url=part.html_url,
        head_repo_id=RepoId(part.head.repo.id) if part.head.repo else None,
    )
