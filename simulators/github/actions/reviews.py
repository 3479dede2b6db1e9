"""Reviews, their line comments, and threads."""

from dataclasses import dataclass
from typing import Any

from simulators.github.clock import iso
from simulators.github.git import GitError
from simulators.github.model import Issue, Pull, Repository, Review, ReviewComment, Thread, User
from simulators.github.platform import Platform
from simulators.github.shapes.pulls import (
    merge_base,
    pull_simple_json,
    review_comment_json,
    review_json,
    thread_json,
)

Json = dict[str, Any]
STATES = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}


@dataclass(frozen=True)
class Remark:
    """A line comment about to be made; ``outdated`` makes its position null at once."""

    path: str
    body: str
    line: int = 1
    side: str = "RIGHT"
    start_line: int | None = None
    outdated: bool = False


def diff_hunk(repository: Repository, pull: Pull, path: str) -> str | None:
    """The first hunk of a file in a pull request; None when the file is not in its diff."""
    try:
        files = repository.git.changes(merge_base(repository, pull), pull.head_sha)
    except GitError:
        return None
    return next((change.patch or "@@ -0,0 +1 @@" for change in files if change.path == path), None)


def submit_review(
    platform: Platform,
    repository: Repository,
    issue: Issue,
    pull: Pull,
    author: User,
    state: str,
    body: str = "",
    remarks: list[Remark] | None = None,
) -> Review:
    """A review with its line comments: one event for the review, one for each comment.

    A single comment on a line is, on GitHub too, a review in state COMMENTED without a text.
    """
    world = platform.world
    pending = state == "PENDING"
    submitted_at = None if pending else world.now()
    review = Review(
        world.new_id(), repository.id, issue.number, author.id, body, state, pull.head_sha, submitted_at
    )
    pull.reviews.append(review)
    world.reviews[review.id] = review
    if author.id in pull.reviewer_ids and not pending:
        pull.reviewer_ids.remove(author.id)
    comments = [
        new_comment(platform, repository, issue, pull, author, review, remark) for remark in remarks or []
    ]
    if not pending:
        emit_review(platform, repository, issue, pull, review, author, "submitted")
        for comment in comments:
            emit_review_comment(platform, repository, issue, pull, comment, author, "created")
    return review


def new_comment(
    platform: Platform,
    repository: Repository,
    issue: Issue,
    pull: Pull,
    author: User,
    review: Review,
    remark: Remark,
    reply_to: ReviewComment | None = None,
) -> ReviewComment:
    """A line comment and, unless it is a reply, its thread; no event yet."""
    world = platform.world
    now = world.now()
    if reply_to is None:
        thread = Thread(world.new_id(), repository.id, issue.number, [])
        pull.threads.append(thread)
        world.threads[thread.id] = thread
    else:
        thread = world.threads[reply_to.thread_id]
    hunk = reply_to.diff_hunk if reply_to else diff_hunk(repository, pull, remark.path)
    comment = ReviewComment(
        id=world.new_id(),
        repo_id=repository.id,
        number=issue.number,
        review_id=review.id,
        thread_id=thread.id,
        user_id=author.id,
        body=remark.body,
        path=remark.path,
        line=remark.line,
        side=remark.side,
        start_line=remark.start_line,
        original_line=remark.line,
        commit_id=pull.head_sha,
        original_commit_id=pull.head_sha,
        diff_hunk=hunk or "@@ -1 +1 @@",
        created_at=now,
        updated_at=now,
        position=None if remark.outdated else 1,
        in_reply_to=reply_to.id if reply_to else None,
    )
    thread.comment_ids.append(comment.id)
    pull.comments.append(comment)
    world.review_comments[comment.id] = comment
    issue.updated_at = now
    return comment


def reply(
    platform: Platform,
    repository: Repository,
    issue: Issue,
    pull: Pull,
    author: User,
    to: ReviewComment,
    body: str,
) -> ReviewComment:
    """An answer in a thread; on GitHub it is a review of its own."""
    world = platform.world
    first = world.review_comments[world.threads[to.thread_id].comment_ids[0]]
    now = world.now()
    review = Review(
        world.new_id(), repository.id, issue.number, author.id, "", "COMMENTED", pull.head_sha, now
    )
    pull.reviews.append(review)
    world.reviews[review.id] = review
    remark = Remark(
        first.path, body, first.original_line or 1, first.side, first.start_line, first.position is None
    )
    comment = new_comment(platform, repository, issue, pull, author, review, remark, first)
    emit_review(platform, repository, issue, pull, review, author, "submitted")
    emit_review_comment(platform, repository, issue, pull, comment, author, "created")
    return comment


def emit_review(
    platform: Platform,
    repository: Repository,
    issue: Issue,
    pull: Pull,
    review: Review,
    actor: User,
    action: str,
    changes: Json | None = None,
) -> None:
    """A ``pull_request_review`` event."""
    world = platform.world
    body: Json = {
        "action": action,
        "review": review_json(world, review, webhook=True),
        "pull_request": pull_simple_json(world, repository, issue, pull),
    }
    if changes is not None:
        body["changes"] = changes
    platform.emit("pull_request_review", repository, actor, body)


def emit_review_comment(
    platform: Platform,
    repository: Repository,
    issue: Issue,
    pull: Pull,
    comment: ReviewComment,
    actor: User,
    action: str,
    changes: Json | None = None,
) -> None:
    """A ``pull_request_review_comment`` event."""
    world = platform.world
    body: Json = {
        "action": action,
        "comment": review_comment_json(world, comment),
        "pull_request": pull_simple_json(world, repository, issue, pull),
    }
    if changes is not None:
        body["changes"] = changes
    platform.emit("pull_request_review_comment", repository, actor, body)


def edit_review_comment(platform: Platform, comment: ReviewComment, actor: User, body: str) -> None:
    """Changes a line comment's text."""
    repository = platform.world.repositories[comment.repo_id]
    issue, pull = platform.world.pull(repository, comment.number)
    before, comment.body = comment.body, body
    comment.updated_at = comment.edited_at = platform.world.now()
    comment.editor_id = actor.id
    changes = {"body": {"from": before}}
    emit_review_comment(platform, repository, issue, pull, comment, actor, "edited", changes)


def edit_review(platform: Platform, review: Review, actor: User, body: str) -> None:
    """Changes a review's own text."""
    repository = platform.world.repositories[review.repo_id]
    issue, pull = platform.world.pull(repository, review.number)
    before, review.body = review.body, body
    review.edited_at, review.editor_id = platform.world.now(), actor.id
    emit_review(platform, repository, issue, pull, review, actor, "edited", {"body": {"from": before}})


def delete_review_comment(platform: Platform, comment: ReviewComment, actor: User) -> None:
    """Removes a line comment, and its thread with its last one."""
    world = platform.world
    repository = world.repositories[comment.repo_id]
    issue, pull = world.pull(repository, comment.number)
    emit_review_comment(platform, repository, issue, pull, comment, actor, "deleted")
    pull.comments.remove(comment)
    del world.review_comments[comment.id]
    thread = world.threads[comment.thread_id]
    thread.comment_ids.remove(comment.id)
    if not thread.comment_ids:
        pull.threads.remove(thread)
        del world.threads[thread.id]


def dismiss_review(platform: Platform, review: Review, actor: User) -> None:
    """Takes an approval or a request for changes out of force."""
    repository = platform.world.repositories[review.repo_id]
    issue, pull = platform.world.pull(repository, review.number)
    review.state = "DISMISSED"
    emit_review(platform, repository, issue, pull, review, actor, "dismissed")


def set_resolved(platform: Platform, thread: Thread, actor: User, resolved: bool) -> None:
    """Resolves or reopens a thread; no event when it is so already."""
    if (thread.resolved_by is not None) == resolved:
        return
    world = platform.world
    repository = world.repositories[thread.repo_id]
    issue, pull = world.pull(repository, thread.number)
    thread.resolved_by = actor.id if resolved else None
    body = {
        "action": "resolved" if resolved else "unresolved",
        "pull_request": pull_simple_json(world, repository, issue, pull),
        "thread": thread_json(world, thread),
        "updated_at": iso(world.now()),
    }
    platform.emit("pull_request_review_thread", repository, actor, body)
