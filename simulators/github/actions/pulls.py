"""Pull requests: opening, following the head, ready and draft."""

from typing import Any

from simulators.github.actions.issues import emit_issue, new_issue, set_issue_state
from simulators.github.git import GitError
from simulators.github.model import App, Issue, Pull, Repository, User
from simulators.github.platform import Platform
from simulators.github.shapes.accounts import account_json

Json = dict[str, Any]


def open_pull(
    platform: Platform,
    repository: Repository,
    author: User,
    title: str,
    body: str | None,
    head: tuple[Repository, str],
    base: str,
    *,
    draft: bool = False,
    app: App | None = None,
) -> Issue:
    """Opens a pull request from ``head`` (repository, branch). The branches must exist."""
    source, branch = head
    head_sha = source.git.find_ref(f"refs/heads/{branch}")
    base_sha = repository.git.find_ref(f"refs/heads/{base}")
    if head_sha is None or base_sha is None:
        raise LookupError(f"no branch {branch if head_sha is None else base}")
    issue = new_issue(platform, repository, author, title, body, app)
    repository.git.fetch_from(source.git, head_sha, f"refs/pull/{issue.number}/head")
    pull_id = platform.world.new_id()
    issue.pull = Pull(pull_id, branch, head_sha, source.id, source.owner_id, base, base_sha, draft)
    emit_issue(platform, repository, issue, author, "opened")
    return issue


def follow_head(
    platform: Platform, repository: Repository, issue: Issue, source: Repository, sha: str, actor: User
) -> None:
    """The head branch of an open pull request moved."""
    pull = issue.pull
    if pull is None or pull.head_sha == sha:
        return
    before, pull.head_sha = pull.head_sha, sha
    repository.git.fetch_from(source.git, sha, f"refs/pull/{issue.number}/head")
    mark_outdated(repository, pull)
    platform.note(issue, actor, f"pushed {sha[:7]}")
    emit_issue(platform, repository, issue, actor, "synchronize", {"before": before, "after": sha})


def mark_outdated(repository: Repository, pull: Pull) -> None:
    """A comment whose file changed since it was made loses its position, as on GitHub (roughly: per file)."""
    for comment in pull.comments:
        try:
            touched = repository.git.changes(comment.original_commit_id, pull.head_sha)
        except GitError:
            continue
        if any(comment.path in (change.path, change.previous) for change in touched):
            comment.position = None
        else:
            comment.commit_id = pull.head_sha


def close_pull(platform: Platform, repository: Repository, issue: Issue, actor: User) -> None:
    """Closes without merging."""
    set_issue_state(platform, repository, issue, actor, "closed")
    issue.state_reason = None


def reopen_pull(platform: Platform, repository: Repository, issue: Issue, actor: User) -> None:
    """Reopens a closed pull request; ValueError when it is merged or its branch is gone."""
    pull = issue.pull
    if pull is None or pull.merged_at is not None:
        raise ValueError("state cannot be changed. The pull request is merged.")
    source = platform.world.repositories.get(pull.head_repo_id or 0)
    sha = source.git.find_ref(f"refs/heads/{pull.head_ref}") if source else None
    if source is None or sha is None:
        raise ValueError(f"state cannot be changed. The {pull.head_ref} branch has been deleted.")
    pull.head_sha = sha
    repository.git.fetch_from(source.git, sha, f"refs/pull/{issue.number}/head")
    set_issue_state(platform, repository, issue, actor, "open")


def set_draft(platform: Platform, repository: Repository, issue: Issue, actor: User, draft: bool) -> None:
    """Draft ↔ ready for review; no event when it is so already."""
    if issue.pull is None or issue.pull.draft == draft:
        return
    issue.pull.draft = draft
    platform.note(issue, actor, "marked this as draft" if draft else "marked this as ready for review")
    emit_issue(platform, repository, issue, actor, "converted_to_draft" if draft else "ready_for_review")


def retarget(platform: Platform, repository: Repository, issue: Issue, actor: User, base: str) -> None:
    """Changes the base branch; LookupError when there is no such branch."""
    pull = issue.pull
    sha = repository.git.find_ref(f"refs/heads/{base}")
    if pull is None or sha is None:
        raise LookupError(f"no branch {base}")
    if pull.base_ref != base:
        old_ref, old_sha = pull.base_ref, pull.base_sha
        pull.base_ref, pull.base_sha = base, sha
        platform.note(issue, actor, f"changed the base branch from {old_ref} to {base}")
        changes = {"base": {"ref": {"from": old_ref}, "sha": {"from": old_sha}}}
        emit_issue(platform, repository, issue, actor, "edited", {"changes": changes})


def request_reviewer(
    platform: Platform,
    repository: Repository,
    issue: Issue,
    actor: User,
    reviewer: User,
    *,
    remove: bool = False,
) -> None:
    """Asks somebody for a review, or takes it back."""
    pull = issue.pull
    if pull is None or (reviewer.id in pull.reviewer_ids) is not remove:
        return
    if remove:
        pull.reviewer_ids.remove(reviewer.id)
    else:
        pull.reviewer_ids.append(reviewer.id)
    what = "removed the review request for" if remove else "requested a review from"
    platform.note(issue, actor, f"{what} {reviewer.login}")
    extra = {"requested_reviewer": account_json(platform.world, reviewer)}
    action = "review_request_removed" if remove else "review_requested"
    emit_issue(platform, repository, issue, actor, action, extra)
