"""Reviews of pull requests: their words, their threads, and what is answered there.

REST has reviews and comments, https://docs.github.com/rest/pulls/comments; whether a thread is resolved, who changed
words last, and reactions to a review itself, only GraphQL knows:
https://docs.github.com/graphql/reference/objects#pullrequestreviewthread
https://docs.github.com/graphql/reference/interfaces#comment
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from app.domain.errors import Gone, Unexpected
from app.domain.ports import RepoRef
from app.domain.review_words import PullWords, Remark, ReviewBody
from app.github.answers import parse_fields
from app.github.apps import Apps
from app.github.clients import Ask, work_on
from app.github.family import check_body, repo_path
from app.github.parts import ReviewCommentPart, ReviewPart

_THREADS = """
query($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      reviewThreads(first: 100, after: $after) {
        nodes {
          isResolved
          comments(first: 100) {
            nodes { databaseId lastEditedAt editor { ... on User { databaseId } ... on Bot { databaseId } } }
          }
        }
        pageInfo { hasNextPage endCursor }
      }
    }
  }
}
"""
_REVIEW = """
query($id: ID!) {
  node(id: $id) {
    ... on PullRequestReview {
      lastEditedAt
      editor { ... on User { databaseId } ... on Bot { databaseId } }
    }
  }
}
"""
_REACT = """
mutation($id: ID!, $content: ReactionContent!) {
  addReaction(input: {subjectId: $id, content: $content}) { reaction { content } }
}
"""
_CONTENTS = {"eyes": "EYES", "rocket": "ROCKET", "confused": "CONFUSED", "+1": "THUMBS_UP"}
_PAGES = 20
"""Of 100 threads each."""


@dataclass(frozen=True)
class _Number:
    databaseId: int | None = None  # noqa: N815 - GraphQL's own name


@dataclass(frozen=True)
class _Words:
    """`editor` is also null when whoever changed them has no account any more."""

    databaseId: int | None = None  # noqa: N815
    lastEditedAt: str | None = None  # noqa: N815
    editor: _Number | None = None

    def is_altered(self, author_id: int | None) -> bool:
        """Whether the text as it stands is somebody else's than its author's."""
        editor_id = self.editor.databaseId if self.editor else None
        return self.lastEditedAt is not None and (editor_id is None or editor_id != author_id)


@dataclass(frozen=True)
class _Comments:
    nodes: tuple[_Words, ...] = ()


@dataclass(frozen=True)
class _Thread:
    isResolved: bool  # noqa: N815
    comments: _Comments


@dataclass(frozen=True)
class _PageInfo:
    hasNextPage: bool = False  # noqa: N815
    endCursor: str | None = None  # noqa: N815


@dataclass(frozen=True)
class _Threads:
    nodes: tuple[_Thread, ...]
    pageInfo: _PageInfo  # noqa: N815


@dataclass(frozen=True)
class _Pull:
    reviewThreads: _Threads  # noqa: N815


@dataclass(frozen=True)
class _Repository:
    pullRequest: _Pull | None = None  # noqa: N815


@dataclass(frozen=True)
class _Data:
    repository: _Repository | None = None


@dataclass(frozen=True)
class _ReviewData:
    node: _Words | None = None


class Reviews(Apps):
    async def fetch_pull_words(self, repo: RepoRef, number: int, review_ids: Collection[int]) -> PullWords:
        """Those reviews, all inline comments, and which threads are resolved, as they stand now. A review that was
        deleted meanwhile is left out.
        """
        reviews = []
        for review_id in sorted(review_ids):
            try:
                reviews.append(await self._review(repo, number, review_id))
            except Gone:
                continue
        # Before their threads: who changed words that are read here is then known.
        remarks = await self._remarks(repo, number)
        threads = await self._threads(repo, number) if remarks else []
        edits = {words.databaseId: words for thread in threads for words in thread.comments.nodes}
        return PullWords(
            tuple(reviews),
            tuple(_remark(part, edits.get(part.id)) for part in remarks),
            frozenset(
                words.databaseId
                for thread in threads
                if thread.isResolved
                for words in thread.comments.nodes[:1]
                if words.databaseId
            ),
        )

    async def _review(self, repo: RepoRef, number: int, review_id: int) -> ReviewBody:
        path = repo_path(repo, "pulls", number, "reviews", review_id)
        part = await self._api.fetch(ReviewPart, Ask("GET", path, work_on(repo)))
        altered = False
        author_id = part.user.id if part.user else None
        if part.body and part.node_id:
            answer = await self._api.graphql(work_on(repo), _REVIEW, {"id": part.node_id}, reads=True)
            words = parse_fields(_ReviewData, answer).node
            if words is None:
                raise Gone("the review is not there any more")
            altered = words.is_altered(author_id)
        return ReviewBody(part.id, part.node_id, part.state.upper(), part.body or "", author_id, altered)

    async def _remarks(self, repo: RepoRef, number: int) -> list[ReviewCommentPart]:
        path = repo_path(repo, "pulls", number, "comments")
        listed = await self._api.pages(ReviewCommentPart, Ask("GET", path, work_on(repo), patient=True))
        return sorted(listed, key=lambda comment: comment.id)

    async def _threads(self, repo: RepoRef, number: int) -> list[_Thread]:
        found: list[_Thread] = []
        after: str | None = None
        for _ in range(_PAGES):
            variables = {"owner": repo.owner, "name": repo.name, "number": number, "after": after}
            answer = await self._api.graphql(work_on(repo), _THREADS, variables, reads=True)
            data = parse_fields(_Data, answer)
            if data.repository is None or data.repository.pullRequest is None:
                raise Gone("the pull request is not there any more")
            threads = data.repository.pullRequest.reviewThreads
            found += threads.nodes
            if not threads.pageInfo.hasNextPage:
                break
            after = threads.pageInfo.endCursor
        return found

    async def ensure_thread_answer(
        self, repo: RepoRef, number: int, root_id: int, marker: str, body: str
    ) -> None:
        """One comment of ours with `marker` in that thread. Gone when its first comment was deleted."""
        check_body(body)
        if marker not in body:
            raise Unexpected("the answer's text lacks its marker, so it could not be found again")
        us = await self._identity_by(repo.installation_id)
        for remark in await self._remarks(repo, number):
            # Anybody can type a marker; only our own comments are trusted to carry one.
            mine = remark.user is not None and remark.user.id == us.bot_user_id
            if mine and marker in (remark.body or ""):
                return
        path = repo_path(repo, "pulls", number, "comments", root_id, "replies")
        await self._api.call(Ask("POST", path, work_on(repo), json={"body": body}))

    async def ensure_remark_reaction(self, repo: RepoRef, comment_id: int, content: str) -> None:
        """To an inline comment. GitHub keeps one reaction of a kind per user."""
        path = repo_path(repo, "pulls/comments", comment_id, "reactions")
        await self._api.call(Ask("POST", path, work_on(repo), json={"content": content}))

    async def ensure_review_reaction(self, repo: RepoRef, node_id: str, content: str) -> None:
        """To the text of a review, by its GraphQL id."""
        await self._api.graphql(work_on(repo), _REACT, {"id": node_id, "content": _CONTENTS[content]})


def _remark(part: ReviewCommentPart, words: _Words | None) -> Remark:
    """`words` is None far down in a long thread; there any change counts as somebody else's."""
    author = part.user
    author_id = author.id if author else None
    changed = part.updated_at != part.created_at
    return Remark(
        comment_id=part.id,
        review_id=part.pull_request_review_id,
        root_id=part.in_reply_to_id or part.id,
        author_id=author_id,
        author_login=author.login if author else "",
        author_type=author.type if author else "",
        body=part.body or "",
        path=part.path,
        line=part.line,
        original_line=part.original_line,
        side=part.side or "RIGHT",
        diff_hunk=part.diff_hunk,
        updated_at=part.updated_at,
        altered=words.is_altered(author_id) if words is not None else changed,
    )
