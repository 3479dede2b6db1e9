"""The things that exist on the simulated GitHub, as plain mutable records."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from simulators.github.git import BareRepository

RESERVED_LOGINS = frozenset(
    [
        "_sim",
        "_static",
        "api",
        "app",
        "app-manifests",
        "apps",
        "graphql",
        "installation",
        "meta",
        "notifications",
        "octocat",
        "organizations",
        "orgs",
        "rate_limit",
        "repos",
        "repositories",
        "search",
        "settings",
        "user",
        "users",
        "versions",
        "zen",
    ]
)
REACTIONS = ("+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes")
ROLES = ("none", "read", "triage", "write", "maintain", "admin")


@dataclass
class User:
    """A person, an organization or an App's bot. ``kind`` is GitHub's ``type``."""

    id: int
    login: str
    kind: str
    name: str
    email: str
    created_at: datetime
    members: dict[int, str] = field(default_factory=dict)
    app_id: int | None = None


@dataclass
class App:
    """A registered GitHub App with its one webhook."""

    id: int
    slug: str
    name: str
    owner_id: int
    bot_id: int
    hook_id: int
    client_id: str
    client_secret: str
    public_key_pem: str
    permissions: dict[str, str]
    events: list[str]
    created_at: datetime
    webhook_url: str | None = None
    webhook_secret: str | None = None
    webhook_active: bool = True
    description: str | None = None
    external_url: str = "https://example.com"
    private_key_pem: str | None = None


@dataclass
class Installation:
    """One App installed on one account."""

    id: int
    app_id: int
    account_id: int
    selection: str
    repo_ids: set[int]
    permissions: dict[str, str]
    events: list[str]
    created_at: datetime
    updated_at: datetime
    suspended_at: datetime | None = None
    suspended_by: int | None = None
    deleted: bool = False


@dataclass
class Token:
    """An installation access token; the token itself is kept only as a digest by its owner."""

    installation_id: int
    repo_ids: frozenset[int] | None
    permissions: dict[str, str]
    expires_at: datetime
    revoked: bool = False


@dataclass
class Label:
    """A label of one repository."""

    id: int
    name: str
    color: str
    description: str | None
    default: bool = False


@dataclass
class Reaction:
    """One person's reaction to something."""

    id: int
    user_id: int
    content: str
    created_at: datetime


@dataclass
class Comment:
    """A comment on an issue's or pull request's conversation."""

    id: int
    repo_id: int
    number: int
    user_id: int | None
    body: str
    created_at: datetime
    updated_at: datetime
    app_id: int | None = None
    edited_at: datetime | None = None
    editor_id: int | None = None
    minimized: str | None = None
    reactions: list[Reaction] = field(default_factory=list)


@dataclass
class ReviewComment:
    """A comment on a line of a pull request. ``position`` None means outdated."""

    id: int
    repo_id: int
    number: int
    review_id: int
    thread_id: int
    user_id: int | None
    body: str
    path: str
    line: int | None
    side: str
    start_line: int | None
    original_line: int | None
    commit_id: str
    original_commit_id: str
    diff_hunk: str
    created_at: datetime
    updated_at: datetime
    position: int | None = 1
    in_reply_to: int | None = None
    edited_at: datetime | None = None
    editor_id: int | None = None
    minimized: str | None = None
    reactions: list[Reaction] = field(default_factory=list)


@dataclass
class Thread:
    """The conversation about one place in a diff."""

    id: int
    repo_id: int
    number: int
    comment_ids: list[int]
    resolved_by: int | None = None


@dataclass
class Review:
    """A submitted (or pending) review; ``state`` as REST spells it, in capitals."""

    id: int
    repo_id: int
    number: int
    user_id: int
    body: str
    state: str
    commit_id: str
    submitted_at: datetime | None
    edited_at: datetime | None = None
    editor_id: int | None = None
    minimized: str | None = None
    reactions: list[Reaction] = field(default_factory=list)


@dataclass
class Pull:
    """What an issue has in addition when it is a pull request."""

    id: int
    head_ref: str
    head_sha: str
    head_repo_id: int | None
    head_owner_id: int
    base_ref: str
    base_sha: str
    draft: bool
    merged_at: datetime | None = None
    merged_by: int | None = None
    merge_commit_sha: str | None = None
    reviewer_ids: list[int] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
    comments: list[ReviewComment] = field(default_factory=list)
    threads: list[Thread] = field(default_factory=list)


@dataclass
class TimelineEntry:
    """One line of a conversation that is not a comment. ``id`` and ``event`` (with its label's name and colour) are of
    what the list of an issue's events shows.
    """

    at: datetime
    user_id: int | None
    text: str
    id: int = 0
    event: str = ""
    label: tuple[str, str] = ("", "")


@dataclass
class Issue:
    """An issue, or a pull request's issue side when ``pull`` is set."""

    id: int
    repo_id: int
    number: int
    title: str
    body: str | None
    user_id: int | None
    created_at: datetime
    updated_at: datetime
    state: str = "open"
    state_reason: str | None = None
    closed_at: datetime | None = None
    closed_by: int | None = None
    locked: bool = False
    lock_reason: str | None = None
    app_id: int | None = None
    deleted: bool = False
    moved_to: tuple[int, int] | None = None
    label_ids: list[int] = field(default_factory=list)
    assignee_ids: list[int] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    reactions: list[Reaction] = field(default_factory=list)
    timeline: list[TimelineEntry] = field(default_factory=list)
    pull: Pull | None = None
    parent_number: int | None = None
    """The issue of the same repository that this one is a sub-issue of."""


@dataclass
class CheckSuite:
    """All check runs of one App on one head."""

    id: int
    repo_id: int
    app_id: int
    head_sha: str
    head_branch: str | None
    before: str | None
    created_at: datetime
    updated_at: datetime


@dataclass
class CheckRun:
    """One check run; times and output as the App gave them."""

    id: int
    repo_id: int
    suite_id: int
    app_id: int
    name: str
    head_sha: str
    status: str
    started_at: datetime
    external_id: str | None = None
    details_url: str | None = None
    conclusion: str | None = None
    completed_at: datetime | None = None
    title: str | None = None
    summary: str | None = None
    text: str | None = None
    annotations: list[dict[str, Any]] = field(default_factory=list)
    actions: list[dict[str, str]] = field(default_factory=list)


@dataclass
class Job:
    """One job of a workflow run, with its log."""

    id: int
    name: str
    status: str
    conclusion: str | None
    log: str
    check_run_id: int


@dataclass
class WorkflowRun:
    """One GitHub Actions run."""

    id: int
    repo_id: int
    suite_id: int
    name: str
    path: str
    number: int
    event: str
    head_branch: str
    head_sha: str
    status: str
    conclusion: str | None
    created_at: datetime
    updated_at: datetime
    jobs: list[Job] = field(default_factory=list)


@dataclass
class Repository:
    """A repository: everything that hangs on it, and its bare git repository."""

    id: int
    owner_id: int
    name: str
    git: BareRepository
    created_at: datetime
    updated_at: datetime
    pushed_at: datetime
    private: bool = True
    default_branch: str = "main"
    description: str | None = None
    archived: bool = False
    disabled: bool = False
    has_issues: bool = True
    drafts_allowed: bool = True
    deleted: bool = False
    parent_id: int | None = None
    next_number: int = 1
    labels: dict[int, Label] = field(default_factory=dict)
    issues: dict[int, Issue] = field(default_factory=dict)
    collaborators: dict[int, str] = field(default_factory=dict)
    protected: dict[str, str] = field(default_factory=dict)
    suites: list[CheckSuite] = field(default_factory=list)
    check_runs: dict[int, CheckRun] = field(default_factory=dict)
    workflow_runs: dict[int, WorkflowRun] = field(default_factory=dict)
    verified_commits: set[str] = field(default_factory=set)
