"""What a delivery tells, reduced to what decisions need. Plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RepoFacts:
    repo_id: int
    owner: str
    name: str
    default_branch: str | None = None
    private: bool = False


@dataclass(frozen=True)
class CommentFacts:
    """A comment in a conversation, as the event tells it. `via_app_id`: the App it was written through, if any."""

    comment_id: int
    body: str
    author_id: int | None
    author_login: str = ""
    author_type: str = ""
    via_app_id: int | None = None
    edited_at: str = ""
    """GitHub's own text of the time it was written or changed the last time."""


@dataclass(frozen=True)
class Happening:
    """One delivery, reduced to what decisions need. None = the payload did not say."""

    event: str
    action: str | None
    installation_id: int | None = None
    repo: RepoFacts | None = None
    sender_id: int | None = None
    sender_login: str = ""
    sender_type: str = ""
    issue_number: int | None = None
    issue_is_pull: bool = False
    issue_title: str = ""
    issue_body: str = ""
    issue_labels: tuple[str, ...] = ()
    issue_updated_at: str = ""
    label: str | None = None
    label_id: int | None = None
    comment: CommentFacts | None = None
    pull_number: int | None = None
    pull_merged: bool = False
    pull_head_sha: str = ""
    pull_base: str = ""
    """The branch that the pull request leads to."""
    branch: str = ""
    """The branch that was pushed to or deleted."""
    branch_sha: str = ""
    """Where a push left it; empty when it was deleted."""
    review_id: int | None = None
    """Of the review that was submitted, or that the inline comment belongs to; `comment` has the words of either."""
    review_state: str = ""
    review_node_id: str = ""
    thread_root_id: int | None = None
    """The first comment of the thread that an inline comment stands in, or that was resolved."""
    thread_changed_at: str = ""
    """GitHub's own text of the time it was resolved or opened again, or of the pull request's last change before."""
    check_run_id: int | None = None
    check_app_id: int | None = None
    check_head_sha: str = ""
    """Of a check suite: all check runs on that commit."""
    checked_sha: str = ""
    """The commit on which a check run, check suite or workflow run has ended; empty for other news of them."""
    requested_action: str | None = None
    repositories: tuple[RepoFacts, ...] = ()
    repositories_removed: tuple[int, ...] = ()
    account_id: int | None = None
    account_login: str | None = None
    target_app_id: int | None = None
    """The App whose hook GitHub says this was sent to; None for other kinds of hook."""
