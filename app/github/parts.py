"""The pieces of GitHub's JSON that are read, as plain data: only the fields we use, everything else is ignored.

One class serves webhook payloads and API answers alike; what only one of them carries has a default.
Nullable here is what GitHub sends as null (a deleted user, a deleted fork, an empty body). Times are GitHub's own
text (`2026-01-02T03:04:05Z`), because `push` sends some of them as numbers and nothing here calculates with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

Id = Annotated[int, Field(ge=0, lt=2**63)]
"""A numeric id as GitHub gives them; what does not fit a database's big integer is not one."""


@dataclass(frozen=True)
class Account:
    """A user, bot or organization. `type` is `User`, `Bot`, `Organization` or `Mannequin`."""

    id: Id
    login: str
    type: str = "User"


@dataclass(frozen=True)
class RepositoryPart:
    """A repository, as short as `installation` events show it or as long as the API does."""

    id: Id
    name: str
    full_name: str = ""
    owner: Account | None = None
    default_branch: str | None = None
    private: bool = False
    archived: bool = False
    disabled: bool = False
    has_issues: bool = True
    html_url: str = ""

    @property
    def owner_login(self) -> str:
        """The owner's name; `installation` events give it only as the first half of `full_name`."""
        return self.owner.login if self.owner else self.full_name.partition("/")[0]


@dataclass(frozen=True)
class LabelPart:
    name: str
    id: Id | None = None
    color: str | None = None
    description: str | None = None


@dataclass(frozen=True)
class AppPart:
    id: Id
    slug: str | None = None


@dataclass(frozen=True)
class LinkPart:
    """Only whether it is there: an issue with `pull_request` is a pull request."""

    html_url: str | None = None


@dataclass(frozen=True)
class IssuePart:
    id: Id
    number: Id
    title: str
    user: Account | None
    state: str = "open"
    state_reason: str | None = None
    body: str | None = None
    locked: bool = False
    labels: tuple[LabelPart, ...] = ()
    html_url: str = ""
    updated_at: str = ""
    pull_request: LinkPart | None = None

    @property
    def label_names(self) -> tuple[str, ...]:
        return tuple(label.name for label in self.labels)


@dataclass(frozen=True)
class IssueEventPart:
    """One line of an issue's history; `label` only where the event is about one, and without its number."""

    event: str
    created_at: str
    label: LabelPart | None = None


@dataclass(frozen=True)
class CommentPart:
    """A comment on an issue or on a pull request's conversation."""

    id: Id
    user: Account | None
    node_id: str = ""
    body: str | None = None
    html_url: str = ""
    created_at: str = ""
    updated_at: str = ""
    performed_via_github_app: AppPart | None = None


@dataclass(frozen=True)
class RepositoryIdPart:
    id: Id


@dataclass(frozen=True)
class HeadPart:
    """One side of a pull request. `repo` is null when the fork was deleted."""

    ref: str
    sha: str
    repo: RepositoryIdPart | None = None


@dataclass(frozen=True)
class PullPart:
    id: Id
    node_id: str
    number: Id
    state: str
    title: str
    head: HeadPart
    base: HeadPart
    user: Account | None
    draft: bool | None = False
    merged: bool | None = None
    merged_at: str | None = None
    merge_commit_sha: str | None = None
    body: str | None = None
    html_url: str = ""
    updated_at: str = ""
    labels: tuple[LabelPart, ...] = ()
    requested_reviewers: tuple[Account, ...] = ()

    @property
    def is_merged(self) -> bool:
        """Lists carry `merged_at` only, single pull requests both."""
        return bool(self.merged) or self.merged_at is not None


@dataclass(frozen=True)
class ReviewPart:
    id: Id
    user: Account | None
    state: str
    node_id: str = ""
    body: str | None = None
    commit_id: str | None = None
    html_url: str = ""
    submitted_at: str | None = None


@dataclass(frozen=True)
class ReviewCommentPart:
    """`position` and `line` are null once the commented line is outdated."""

    id: Id
    user: Account | None
    path: str
    node_id: str = ""
    body: str | None = None
    commit_id: str | None = None
    position: int | None = None
    line: int | None = None
    original_line: int | None = None
    side: str | None = None
    diff_hunk: str = ""
    in_reply_to_id: Id | None = None
    pull_request_review_id: Id | None = None
    html_url: str = ""
    created_at: str = ""
    updated_at: str = ""


@dataclass(frozen=True)
class PullNumberPart:
    number: Id


@dataclass(frozen=True)
class CheckSuitePart:
    id: Id
    head_sha: str = ""
    head_branch: str | None = None
    status: str | None = None
    conclusion: str | None = None
    app: AppPart | None = None
    pull_requests: tuple[PullNumberPart, ...] = ()


@dataclass(frozen=True)
class CheckOutputPart:
    title: str | None = None
    summary: str | None = None


@dataclass(frozen=True)
class CheckRunPart:
    id: Id
    name: str
    head_sha: str
    status: str
    conclusion: str | None = None
    external_id: str | None = None
    app: AppPart | None = None
    check_suite: CheckSuitePart | None = None
    pull_requests: tuple[PullNumberPart, ...] = ()
    output: CheckOutputPart | None = None
    details_url: str | None = None
    html_url: str | None = None


@dataclass(frozen=True)
class InstallationPart:
    id: Id
    account: Account | None = None
    app_id: Id | None = None
    repository_selection: str | None = None
    permissions: dict[str, str] | None = None
    events: tuple[str, ...] = ()
    suspended_at: str | None = None


@dataclass(frozen=True)
class WorkflowRunPart:
    id: Id
    head_sha: str
    status: str | None
    conclusion: str | None
    name: str | None = None
    head_branch: str | None = None
    event: str = ""
    run_attempt: int | None = None
    workflow_id: Id | None = None
    check_suite_id: Id | None = None
    html_url: str = ""
    pull_requests: tuple[PullNumberPart, ...] = ()
