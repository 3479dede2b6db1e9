"""Issues, their comments, labels and reactions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from app.domain.errors import Gone, Refused, Unexpected
from app.domain.ids import IssueNumber, UserId
from app.domain.ports import Comment, Identity, Issue, RepoRef, User
from app.github.answers import parse_time
from app.github.apps import Apps
from app.github.clients import Ask, work_on
from app.github.family import check_body, repo_path, same_text
from app.github.parts import CommentPart, IssueEventPart, IssuePart, LabelPart

_MAX_LABEL_DESCRIPTION = 100
_LOOK_BACK = timedelta(minutes=10)
"""How far before now a comment of a concurrent caller is looked for; more than any two clocks differ."""


class Issues(Apps):
    async def fetch_issue(self, repo: RepoRef, number: IssueNumber) -> Issue:
        """The live issue. Gone when it was deleted, transferred, or issues are switched off."""
        return _issue(await self._api.fetch(IssuePart, _issue_ask(repo, number)))

    async def fetch_labeled_issues(self, repo: RepoRef, label: str) -> tuple[Issue, ...]:
        """The open issues (no pull requests) that carry the label, newest first."""
        params: dict[str, str | int] = {"state": "open", "labels": label}
        ask = Ask("GET", repo_path(repo, "issues"), work_on(repo), params=params)
        listed = await self._api.pages(IssuePart, ask)
        return tuple(_issue(part) for part in listed if part.pull_request is None)

    async def fetch_labeled_at(self, repo: RepoRef, number: IssueNumber, label: str) -> datetime | None:
        """When the label was set the last time, by GitHub's clock to the second; None when its events don't say."""
        ask = Ask("GET", repo_path(repo, "issues", number, "events"), work_on(repo))
        moments = [
            parse_time(event.created_at)
            for event in await self._api.pages(IssueEventPart, ask)
            if event.event == "labeled" and event.label is not None
            if event.label.name.casefold() == label.casefold()
        ]
        return max(moments, default=None)

    async def fetch_comment(self, repo: RepoRef, comment_id: int) -> Comment:
        """A comment of a conversation as it stands now. Gone when it was deleted."""
        path = repo_path(repo, "issues/comments", comment_id)
        return _comment(await self._api.fetch(CommentPart, Ask("GET", path, work_on(repo))))

    async def ensure_issue_closed(self, repo: RepoRef, number: IssueNumber) -> None:
        found = await self._api.fetch(IssuePart, _issue_ask(repo, number))
        if found.state != "closed":
            body = {"state": "closed", "state_reason": "completed"}
            await self._api.call(Ask("PATCH", repo_path(repo, "issues", number), work_on(repo), json=body))

    async def ensure_labels(self, repo: RepoRef, labels: Sequence[tuple[str, str, str]]) -> None:
        """Create the missing ones of (name, color, description); names compare without case."""
        path, scope = repo_path(repo, "labels"), work_on(repo)
        present = {
            label.name.casefold() for label in await self._api.pages(LabelPart, Ask("GET", path, scope))
        }
        for name, color, description in labels:
            if name.casefold() in present:
                continue
            if len(description) > _MAX_LABEL_DESCRIPTION:
                raise Unexpected(f"the description of label {name} is longer than {_MAX_LABEL_DESCRIPTION}")
            body = {"name": name, "color": color, "description": description}
            try:
                await self._api.call(Ask("POST", path, scope, json=body))
            except Refused as refused:
                if refused.code != "already_exists":
                    raise
            present.add(name.casefold())

    async def ensure_reaction(self, repo: RepoRef, comment_id: int, content: str) -> None:
        """GitHub keeps one reaction of a kind per user, so asking again changes nothing."""
        path = repo_path(repo, "issues/comments", comment_id, "reactions")
        await self._api.call(Ask("POST", path, work_on(repo), json={"content": content}))

    # ------------------------------------------------------------ one comment with a marker

    async def ensure_comment(
        self, repo: RepoRef, number: int, marker: str, body: str, *, known_id: int | None
    ) -> Comment:
        """One comment of ours carrying `marker`: by known id, else by marker over all pages, else a new one.

        Only comments that our bot wrote count, whatever others contain. Of several the oldest stays.
        """
        check_body(body)
        if marker not in body:
            raise Unexpected("the comment's text lacks its marker, so it could not be found again")
        us = await self._identity_by(repo.installation_id)
        found = await self._known_comment(repo, known_id, marker, us)
        if found is None:
            found = await self._oldest(repo, await self._marked(repo, number, marker, us))
        if found is None:
            return await self._new_comment(repo, number, marker, body, us)
        if same_text(found.body or "", body):
            return _comment(found)
        path = repo_path(repo, "issues/comments", found.id)
        return _comment(
            await self._api.fetch(CommentPart, Ask("PATCH", path, work_on(repo), json={"body": body}))
        )

    async def _known_comment(
        self, repo: RepoRef, known_id: int | None, marker: str, us: Identity
    ) -> CommentPart | None:
        if known_id is None:
            return None
        path = repo_path(repo, "issues/comments", known_id)
        try:
            found = await self._api.fetch(CommentPart, Ask("GET", path, work_on(repo)))
        except Gone:
            return None
        return found if _is_ours(found, marker, us) else None

    async def _marked(
        self, repo: RepoRef, number: int, marker: str, us: Identity, since: str | None = None
    ) -> list[CommentPart]:
        path = repo_path(repo, "issues", number, "comments")
        params = {"since": since} if since else {}
        listed = await self._api.pages(CommentPart, Ask("GET", path, work_on(repo), params, patient=True))
        return [comment for comment in listed if _is_ours(comment, marker, us)]

    async def _oldest(self, repo: RepoRef, marked: list[CommentPart]) -> CommentPart | None:
        """The first one; what another caller or a lost answer left beside it is removed."""
        ordered = sorted(marked, key=lambda comment: comment.id)
        for extra in ordered[1:]:
            path = repo_path(repo, "issues/comments", extra.id)
            try:
                await self._api.call(Ask("DELETE", path, work_on(repo)))
            except Gone:
                continue
        return ordered[0] if ordered else None

    async def _new_comment(self, repo: RepoRef, number: int, marker: str, body: str, us: Identity) -> Comment:
        path = repo_path(repo, "issues", number, "comments")
        made = await self._api.fetch(CommentPart, Ask("POST", path, work_on(repo), json={"body": body}))
        # Somebody else may have found nothing either and made one too: whoever comes second goes.
        since = (self._api.clock() - _LOOK_BACK).strftime("%Y-%m-%dT%H:%M:%SZ")
        recent = await self._marked(repo, number, marker, us, since)
        if all(comment.id != made.id for comment in recent):
            recent.append(made)
        return _comment(await self._oldest(repo, recent) or made)


def _issue_ask(repo: RepoRef, number: int) -> Ask:
    return Ask("GET", repo_path(repo, "issues", number), work_on(repo), patient=True)


def _is_ours(comment: CommentPart, marker: str, us: Identity) -> bool:
    """Anybody can type a marker; only our own comments are trusted to carry one."""
    return comment.user is not None and comment.user.id == us.bot_user_id and marker in (comment.body or "")


def _comment(part: CommentPart) -> Comment:
    author: Any = UserId(part.user.id) if part.user else None
    return Comment(part.id, part.body or "", author, part.html_url)


def _issue(part: IssuePart) -> Issue:
    return Issue(
        number=IssueNumber(part.number),
        issue_id=part.id,
        title=part.title,
        body=part.body or "",
        state=part.state,
        labels=part.label_names,
        author=User(UserId(part.user.id), part.user.login, part.user.type) if part.user else None,
        locked=part.locked,
        html_url=part.html_url,
        updated_at=part.updated_at,
        label_ids=tuple(label.id for label in part.labels if label.id is not None),
    )
