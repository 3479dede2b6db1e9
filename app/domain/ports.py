"""What the flow needs from outside, as protocols over plain data. Steps see these, never an adapter."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from app.domain.ci import CheckDetails, HeadChecks, OtherCheck
from app.domain.ids import InstallationId, IssueNumber, RepoId, SandboxId, UserId
from app.domain.remote import DirectModel
from app.domain.review_words import PullWords
from app.domain.spoken import Spoken, Told

# ---------------------------------------------------------------- sandboxes


class SandboxStatus(StrEnum):
    """What a provider sees of one sandbox."""

    ABSENT = "absent"
    CREATING = "creating"
    RUNNING = "running"
    EXITED = "exited"
    ERROR = "error"


@dataclass(frozen=True)
class SandboxSight:
    """One look at one sandbox. `exit_code` is the payload's (128+n for a signal); `detail` is for operators."""

    name: str
    status: SandboxStatus
    exit_code: int | None = None
    detail: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    started_at: datetime | None = None
    relayed: bool = False
    """It can't reach the app: a worker carries what it says and asks."""


@dataclass(frozen=True)
class SandboxOrder:
    """All that a provider needs to make one sandbox. Safe to hand in twice: `name` identifies it.

    `environment` holds the contract's variables (strings) without CALLBACK_URL, ANTHROPIC_BASE_URL, HTTPS_PROXY and
    SANDBOX_TOKEN_FILE, which the provider adds, because only it knows them as the inside sees them.
    `inputs` maps file names (brief.json, prompt.md, system.md, transcript.tar.gz) to bytes; `token` becomes a 0600 file.
    `mirror` is a bare repository on this host that has `start_sha`; the work tree stands on it, on branch `branch`,
    with `base_branch`'s tip `base_sha` present too (None when there is none).
    `agent_config_sha` is the commit whose agent configuration (.claude/, .mcp.json, CLAUDE.md, AGENTS.md …) counts.
    """

    sandbox_id: SandboxId
    name: str
    labels: Mapping[str, str]
    environment: Mapping[str, str]
    inputs: Mapping[str, bytes]
    token: str
    mirror: Path
    branch: str
    start_sha: str
    agent_config_sha: str
    memory_gb: int
    cpu: int
    disk_gb: int
    time_limit_s: int
    allow_hosts: Sequence[str] = ()
    direct_model: DirectModel | None = None
    """Used only where the sandbox turns out to be out of the app's reach."""


@dataclass(frozen=True)
class Probe:
    ok: bool
    detail: str


class Sandboxes(Protocol):
    """A provider of isolated machines. Every call ends within 20 s and may be repeated.

    Raises RetryAt (not now), Denied (credentials, quota), Refused (the order is wrong), Unexpected.
    """

    kind: str

    async def probe(self) -> Probe:
        """Whether sandboxes can be made here, and if not, what to do about it."""

    async def ensure_created(self, order: SandboxOrder) -> SandboxSight:
        """Start making the sandbox and its agent unless it exists under that name; returns what is seen now."""

    async def fetch_sight(self, name: str) -> SandboxSight:
        """ABSENT rather than an error when there is no such sandbox."""

    async def ensure_stopped(self, name: str, grace_s: float) -> None:
        """Ask the agent to wrap up and end it after `grace_s` at the latest; returns at once. No-op when absent."""

    async def ensure_deleted(self, name: str) -> None:
        """Remove it and everything it left. No-op when absent."""

    async def list_owned(self) -> Sequence[SandboxSight]:
        """Every sandbox of this Issuewright instance that the provider still knows."""

    async def fetch_log(self, name: str, offset: int = 0, limit: int = 65536) -> bytes:
        """Bytes of the payload's own output from `offset`, or from the oldest that is kept; empty when absent."""

    async def fetch_log_start(self, name: str) -> int:
        """The offset of the oldest byte of it that is kept; 0 when absent."""

    async def fetch_log_tail(self, name: str, size: int) -> bytes:
        """Its last `size` bytes, of however much there is; empty when absent."""

    async def aclose(self) -> None: ...


# ---------------------------------------------------------------- GitHub


@dataclass(frozen=True)
class RepoRef:
    """A repository as an address for calls: identity by `repo_id`, the names as last seen."""

    installation_id: InstallationId
    repo_id: RepoId
    owner: str
    name: str

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"


class Permission(StrEnum):
    NONE = "none"
    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    @property
    def may_write(self) -> bool:
        return self in {Permission.WRITE, Permission.ADMIN}


@dataclass(frozen=True)
class User:
    user_id: UserId
    login: str
    kind: str = "User"


@dataclass(frozen=True)
class Issue:
    number: IssueNumber
    issue_id: int
    title: str
    body: str
    state: str
    labels: tuple[str, ...]
    author: User | None
    locked: bool = False
    html_url: str = ""
    updated_at: str = ""
    """GitHub's own text of the time."""
    label_ids: tuple[int, ...] = ()
    """The numbers of `labels`, as far as GitHub says them: a label keeps its number when it is renamed."""


@dataclass(frozen=True)
class Repository:
    repo_id: RepoId
    owner: str
    name: str
    default_branch: str
    archived: bool
    disabled: bool
    private: bool
    has_issues: bool
    html_url: str = ""


@dataclass(frozen=True)
class Branch:
    name: str
    sha: str


@dataclass(frozen=True)
class Comment:
    comment_id: int
    body: str
    author_id: UserId | None
    html_url: str = ""


@dataclass(frozen=True)
class PullRequest:
    number: int
    node_id: str
    state: str
    draft: bool
    merged: bool
    title: str
    body: str
    head_ref: str
    head_sha: str
    base_ref: str
    html_url: str
    head_repo_id: RepoId | None = None


@dataclass(frozen=True)
class CheckRun:
    check_run_id: int
    head_sha: str
    status: str
    conclusion: str | None
    html_url: str = ""


@dataclass(frozen=True)
class CheckOutput:
    """What a check run shows. `conclusion` None = in progress. `actions` are (label, description, identifier)."""

    title: str
    summary: str
    details_url: str
    conclusion: str | None = None
    actions: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class Identity:
    """The App as an author: `SLUG[bot]` and its numeric user id."""

    app_id: int
    slug: str
    bot_login: str
    bot_user_id: UserId

    @property
    def email(self) -> str:
        return f"{self.bot_user_id}+{self.bot_login}@users.noreply.github.com"


@dataclass(frozen=True)
class HookDelivery:
    """One attempt to send us a webhook, as GitHub lists it. A redelivery carries the GUID of the first attempt."""

    delivery_id: int
    guid: str
    delivered_at: datetime
    status_code: int
    """What our webhook, or something before it, answered; 0 when no answer came."""
    redelivery: bool

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status_code < 300


@dataclass(frozen=True)
class HookPage:
    deliveries: tuple[HookDelivery, ...]
    next_cursor: str | None


class GitHub(Protocol):
    """All that is read from and written to GitHub. Raises RetryAt, Gone, Denied, Refused or Unexpected, nothing else.

    Writes find what is already there before they make it (`ensure_*`), so that calling twice leaves one.
    """

    def warm_up(self) -> None:
        """Load what the first call would wait for; in any thread, any number of times."""

    async def fetch_identity(self) -> Identity: ...
    async def fetch_repository(self, repo: RepoRef) -> Repository: ...
    async def fetch_issue(self, repo: RepoRef, number: IssueNumber) -> Issue: ...
    async def fetch_permission(self, repo: RepoRef, user: User) -> Permission: ...
    async def fetch_branch(self, repo: RepoRef, name: str) -> Branch | None: ...
    async def fetch_refs(self, repo: RepoRef, prefix: str) -> tuple[str, ...]:
        """Names (without refs/heads/) of branches that start with `prefix`."""

    async def fetch_file(self, repo: RepoRef, path: str, ref: str) -> str | None: ...
    async def fetch_tree_paths(self, repo: RepoRef, directory: str, ref: str) -> tuple[str, ...]:
        """Names of the files directly in `directory` ('' = root) at `ref`; empty when there is none."""

    async def fetch_pull(self, repo: RepoRef, number: int) -> PullRequest: ...
    async def fetch_comment(self, repo: RepoRef, comment_id: int) -> Comment:
        """A comment of an issue's or a pull request's conversation as it stands now. Gone when it was deleted."""

    async def fetch_installation_repositories(
        self, installation_id: InstallationId
    ) -> tuple[Repository, ...]: ...

    async def ensure_labels(self, repo: RepoRef, labels: Sequence[tuple[str, str, str]]) -> None:
        """Create the missing ones of (name, color, description); names compare without case."""

    async def ensure_comment(
        self, repo: RepoRef, number: int, marker: str, body: str, *, known_id: int | None
    ) -> Comment:
        """One comment of ours carrying `marker`: by known id, else by marker over all pages, else a new one. Edits it
        to `body` when it differs.
        """

    async def ensure_reaction(self, repo: RepoRef, comment_id: int, content: str) -> None: ...
    async def ensure_start_commit(self, repo: RepoRef, base_sha: str, message: str) -> str:
        """An empty commit on `base_sha` (same tree) made through the API, so that GitHub signs it; its sha."""

    async def find_start_commit(
        self, repo: RepoRef, branch: str, message: str, author_id: UserId
    ) -> str | None:
        """The newest of the last 100 commits of `branch` with exactly that message and that author."""

    async def ensure_branch(self, repo: RepoRef, name: str, sha: str) -> bool:
        """True when the branch stands on `sha` now (made here or before); False when the name is taken by
        another commit. Refused when the name can't exist (a branch `feature` blocks `feature/x`).
        """

    async def ensure_branch_deleted(self, repo: RepoRef, name: str, expected_sha: str) -> bool:
        """Delete it only while it stands on `expected_sha`; True when it is gone now."""

    async def ensure_pull(self, repo: RepoRef, *, head: str, base: str, title: str, body: str) -> PullRequest:
        """The open pull request of that head branch, else a new draft (not a draft where the plan has none)."""

    async def ensure_pull_body(self, repo: RepoRef, number: int, body: str) -> None: ...
    async def ensure_pull_ready(self, repo: RepoRef, pull: PullRequest) -> None: ...
    async def ensure_pull_closed(self, repo: RepoRef, number: int) -> None: ...
    async def ensure_issue_closed(self, repo: RepoRef, number: IssueNumber) -> None: ...
    async def ensure_sub_issue(
        self, repo: RepoRef, parent: IssueNumber, marker: str, title: str, body: str
    ) -> IssueNumber:
        """The issue of ours with `marker` below `parent`, found or made; its text stays as people left it."""

    async def ensure_sub_issue_closed(self, repo: RepoRef, parent: IssueNumber, marker: str) -> None:
        """As completed. Nothing happens when there is none."""

    async def ensure_review_requested(self, repo: RepoRef, number: int, login: str) -> bool:
        """False when GitHub refuses that person as a reviewer (no collaborator, or the author)."""

    async def fetch_pull_words(self, repo: RepoRef, number: int, review_ids: Collection[int]) -> PullWords:
        """Those reviews of a pull request, all its inline comments, and which threads are resolved."""

    async def ensure_thread_answer(
        self, repo: RepoRef, number: int, root_id: int, marker: str, body: str
    ) -> None:
        """One comment of ours with `marker` in the thread that begins with that inline comment."""

    async def ensure_remark_reaction(self, repo: RepoRef, comment_id: int, content: str) -> None:
        """To an inline comment."""

    async def ensure_review_reaction(self, repo: RepoRef, node_id: str, content: str) -> None:
        """To the text of a review, by its GraphQL id."""

    async def ensure_check_run(
        self, repo: RepoRef, head_sha: str, external_id: str, output: CheckOutput, *, known_id: int | None
    ) -> CheckRun:
        """The check run `Issuewright` on that head: by known id, else by external id among ours, else a new one."""

    async def fetch_head_checks(self, repo: RepoRef, head_sha: str) -> HeadChecks:
        """What the checks of other Apps on that commit say, each in its newest attempt."""

    async def fetch_check_details(self, repo: RepoRef, check: OtherCheck) -> CheckDetails:
        """Annotations and the end of the log, as far as they can be read."""

    async def ensure_pushed(
        self, repo: RepoRef, quarantine: Path, sha: str, branch: str, expected_sha: str
    ) -> str:
        """Push `sha` from the bare repository `quarantine` to `branch` without force, only onto `expected_sha` or `sha`
        itself. Returns the branch's sha. Refused when it is rejected; `code` `moved` when the branch stands elsewhere.
        """

    async def fetch_mirror(self, repo: RepoRef, mirror: Path) -> None:
        """Bring the bare mirror repository at `mirror` up to date (clone it when missing); read-only on GitHub."""

    async def fetch_labeled_issues(self, repo: RepoRef, label: str) -> tuple[Issue, ...]:
        """The open issues (no pull requests) that carry the label, newest first."""

    async def fetch_labeled_at(self, repo: RepoRef, number: IssueNumber, label: str) -> datetime | None:
        """When the label was set the last time, by GitHub's clock to the second; None when its events don't say."""

    async def fetch_spoken(
        self, repo: RepoRef, issue: int, pull: int | None, since: datetime
    ) -> Sequence[Spoken]:
        """What was said since then on an issue and its pull request, oldest first; reviews whatever their age."""

    async def fetch_told(self, repo: RepoRef, spoken: Spoken) -> Told | None: ...
    async def fetch_hook_deliveries(self, cursor: str | None) -> HookPage:
        """What was sent to our webhook in the last three days, newest first, a page at a time."""

    async def ensure_redelivered(self, delivery_id: int) -> None: ...
    async def aclose(self) -> None: ...
