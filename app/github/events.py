"""What each webhook event says beside the fields that all of them share. Plain data; see `payloads`."""

from __future__ import annotations

from dataclasses import dataclass

from app.github.parts import (
    Account,
    CheckRunPart,
    CheckSuitePart,
    CommentPart,
    Id,
    InstallationPart,
    IssuePart,
    LabelPart,
    PullPart,
    RepositoryPart,
    ReviewCommentPart,
    ReviewPart,
    WorkflowRunPart,
)


@dataclass(frozen=True)
class IssueChanges:
    """`new_issue` and `new_repository` say where a transferred issue went."""

    new_issue: IssuePart | None = None
    new_repository: RepositoryPart | None = None


@dataclass(frozen=True)
class IssueEvent:
    """`issues`. `label` is the one that was added or removed; null in the others."""

    issue: IssuePart
    label: LabelPart | None = None
    changes: IssueChanges | None = None


@dataclass(frozen=True)
class IssueCommentEvent:
    issue: IssuePart
    comment: CommentPart


@dataclass(frozen=True)
class PullEvent:
    """`pull_request`. `before` and `after` are the heads around a `synchronize`."""

    number: Id
    pull_request: PullPart
    label: LabelPart | None = None
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True)
class ReviewEvent:
    review: ReviewPart
    pull_request: PullPart


@dataclass(frozen=True)
class ReviewCommentEvent:
    comment: ReviewCommentPart
    pull_request: PullPart


@dataclass(frozen=True)
class ThreadPart:
    """A thread by its comments, the first one first."""

    comments: tuple[ReviewCommentPart, ...] = ()


@dataclass(frozen=True)
class ThreadEvent:
    thread: ThreadPart
    pull_request: PullPart
    updated_at: str | None = None


@dataclass(frozen=True)
class PushEvent:
    """`before` or `after` is forty zeros when the ref was made or deleted."""

    ref: str
    before: str
    after: str
    created: bool = False
    deleted: bool = False
    forced: bool = False


@dataclass(frozen=True)
class RefEvent:
    """`create` and `delete`: `ref` is the short name, `ref_type` is `branch` or `tag`."""

    ref: str
    ref_type: str


@dataclass(frozen=True)
class RequestedAction:
    identifier: str


@dataclass(frozen=True)
class CheckRunEvent:
    check_run: CheckRunPart
    requested_action: RequestedAction | None = None


@dataclass(frozen=True)
class CheckSuiteEvent:
    check_suite: CheckSuitePart


@dataclass(frozen=True)
class InstallationEvent:
    installation: InstallationPart
    repositories: tuple[RepositoryPart, ...] | None = None


@dataclass(frozen=True)
class InstallationRepositoriesEvent:
    installation: InstallationPart
    repository_selection: str | None = None
    repositories_added: tuple[RepositoryPart, ...] = ()
    repositories_removed: tuple[RepositoryPart, ...] = ()


@dataclass(frozen=True)
class RepositoryEvent:
    """The new state is in the common fields; names are labels, so the old ones are not needed."""

    repository: RepositoryPart


@dataclass(frozen=True)
class MemberEvent:
    """A collaborator whose access changed: what was known about their permission no longer counts."""

    member: Account | None = None


@dataclass(frozen=True)
class PingHook:
    app_id: Id | None = None


@dataclass(frozen=True)
class PingEvent:
    hook_id: Id
    zen: str = ""
    hook: PingHook | None = None


@dataclass(frozen=True)
class LabelEvent:
    label: LabelPart


@dataclass(frozen=True)
class WorkflowRunEvent:
    workflow_run: WorkflowRunPart


@dataclass(frozen=True)
class AuthorizationEvent:
    """`github_app_authorization`: the sender took back what they had allowed; there is nothing else in it."""

    sender: Account


Detail = (
    IssueEvent
    | IssueCommentEvent
    | PullEvent
    | ReviewEvent
    | ReviewCommentEvent
    | ThreadEvent
    | PushEvent
    | RefEvent
    | CheckRunEvent
    | CheckSuiteEvent
    | InstallationEvent
    | InstallationRepositoriesEvent
    | RepositoryEvent
    | MemberEvent
    | PingEvent
    | LabelEvent
    | WorkflowRunEvent
    | AuthorizationEvent
)
