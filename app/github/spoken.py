"""What was said on an issue and its pull request, for where no delivery told of it.

REST lists the words, https://docs.github.com/rest/issues/comments; who changed them last only GraphQL knows,
https://docs.github.com/graphql/reference/interfaces#comment
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from app.domain.errors import Gone
from app.domain.ports import RepoRef
from app.domain.spoken import Spoken, Told
from app.github.answers import parse_fields, parse_time
from app.github.apps import Apps
from app.github.clients import Ask, work_on
from app.github.family import repo_path, same_text
from app.github.parts import (
    Account,
    CommentPart,
    IssuePart,
    PullPart,
    RepositoryPart,
    ReviewCommentPart,
    ReviewPart,
)

_CHANGE = "{ body lastEditedAt editor { ... on User { databaseId } ... on Bot { databaseId } } }"
_CHANGED = f"""
query($id: ID!) {{
  node(id: $id) {{
    ... on IssueComment {_CHANGE}
    ... on PullRequestReview {_CHANGE}
    ... on PullRequestReviewComment {_CHANGE}
  }}
}}
"""
_PENDING = "PENDING"
"""A review that its author is still writing."""

_Words = CommentPart | ReviewPart | ReviewCommentPart


@dataclass(frozen=True)
class _Editor:
    databaseId: int | None = None  # noqa: N815 - GraphQL's own name


@dataclass(frozen=True)
class _Changed:
    body: str = ""
    lastEditedAt: str | None = None  # noqa: N815
    editor: _Editor | None = None


@dataclass(frozen=True)
class _Node:
    node: _Changed | None = None


class SpokenWords(Apps):
    async def fetch_spoken(
        self, repo: RepoRef, issue: int, pull: int | None, since: datetime
    ) -> tuple[Spoken, ...]:
        """What was said since then on the issue and the pull request, oldest first, and all that their reviews say
        (GitHub does not tell when those were changed). Three requests more with a pull request.
        """
        found = await self._conversation(repo, issue, since)
        if pull is not None:
            found += await self._conversation(repo, pull, since)
            found += await self._remarks_since(repo, pull, since)
            found += await self._submitted(repo, pull)
        return tuple(sorted(found, key=lambda spoken: (spoken.said_at, spoken.word_id)))

    async def _conversation(self, repo: RepoRef, number: int, since: datetime) -> list[Spoken]:
        ask = Ask("GET", repo_path(repo, "issues", number, "comments"), work_on(repo), _after(since))
        return [
            Spoken("issue_comment", *_facts(part, number), parse_time(part.updated_at))
            for part in await self._api.pages(CommentPart, ask)
        ]

    async def _remarks_since(self, repo: RepoRef, pull: int, since: datetime) -> list[Spoken]:
        ask = Ask("GET", repo_path(repo, "pulls", pull, "comments"), work_on(repo), _after(since))
        return [
            Spoken("pull_request_review_comment", *_facts(part, pull), parse_time(part.updated_at))
            for part in await self._api.pages(ReviewCommentPart, ask)
        ]

    async def _submitted(self, repo: RepoRef, pull: int) -> list[Spoken]:
        ask = Ask("GET", repo_path(repo, "pulls", pull, "reviews"), work_on(repo))
        return [
            Spoken("pull_request_review", *_facts(part, pull), parse_time(part.submitted_at))
            for part in await self._api.pages(ReviewPart, ask)
            if part.state.upper() != _PENDING and part.submitted_at
        ]

    async def fetch_told(self, repo: RepoRef, spoken: Spoken) -> Told | None:
        """With whoever changed the words last as the sender. None when they don't read like that any more."""
        try:
            part = await self._words(repo, spoken)
        except Gone:
            return None
        answer = await self._api.graphql(work_on(repo), _CHANGED, {"id": part.node_id}, reads=True)
        changed = parse_fields(_Node, answer).node
        if (
            changed is None
            or not same_text(changed.body, part.body or "")
            or (part.body or "") != spoken.body
        ):
            return None
        sender, action, changed_at = part.user, "created", spoken.said_at
        if isinstance(part, ReviewPart):
            # A listing spells it in capitals, an event does not.
            part, action = replace(part, state=part.state.lower()), "submitted"
        if changed.lastEditedAt is not None:
            action, changed_at = "edited", parse_time(changed.lastEditedAt)
            sender = _sender(changed.editor, part.user)
        return Told(spoken.event, changed_at, await self._delivery(repo, spoken, part, action, sender))

    async def _words(self, repo: RepoRef, spoken: Spoken) -> _Words:
        match spoken.event:
            case "issue_comment":
                path = repo_path(repo, "issues/comments", spoken.word_id)
                return await self._api.fetch(CommentPart, Ask("GET", path, work_on(repo)))
            case "pull_request_review_comment":
                path = repo_path(repo, "pulls/comments", spoken.word_id)
                return await self._api.fetch(ReviewCommentPart, Ask("GET", path, work_on(repo)))
            case "pull_request_review":
                path = repo_path(repo, "pulls", spoken.number, "reviews", spoken.word_id)
                return await self._api.fetch(ReviewPart, Ask("GET", path, work_on(repo)))

    async def _delivery(
        self, repo: RepoRef, spoken: Spoken, part: _Words, action: str, sender: Account | None
    ) -> bytes:
        """Its JSON, as far as deliveries are read here."""
        place = await self._place(repo, spoken)
        home = await self._api.fetch(RepositoryPart, Ask("GET", repo_path(repo), work_on(repo)))
        told = {
            "action": action,
            "review" if isinstance(part, ReviewPart) else "comment": asdict(part),
            "issue" if isinstance(place, IssuePart) else "pull_request": asdict(place),
            "repository": asdict(home),
            "installation": {"id": repo.installation_id},
            "sender": asdict(sender) if sender else None,
        }
        return json.dumps(told).encode()

    async def _place(self, repo: RepoRef, spoken: Spoken) -> IssuePart | PullPart:
        if spoken.event == "issue_comment":
            path = repo_path(repo, "issues", spoken.number)
            return await self._api.fetch(IssuePart, Ask("GET", path, work_on(repo)))
        path = repo_path(repo, "pulls", spoken.number)
        return await self._api.fetch(PullPart, Ask("GET", path, work_on(repo)))


def _after(since: datetime) -> dict[str, str | int]:
    return {"since": since.strftime("%Y-%m-%dT%H:%M:%SZ")}


def _facts(part: _Words, number: int) -> tuple[int, int, str, int | None]:
    return part.id, number, part.body or "", part.user.id if part.user else None


def _sender(editor: _Editor | None, author: Account | None) -> Account | None:
    """Whoever changed the words; None when they have no account any more."""
    if editor is None or editor.databaseId is None:
        return None
    if author is not None and author.id == editor.databaseId:
        return author
    return Account(editor.databaseId, "")
