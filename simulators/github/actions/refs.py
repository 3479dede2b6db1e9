"""Branches move: pull requests follow, events leave."""

from simulators.github.actions.pulls import close_pull, follow_head
from simulators.github.git import ZERO
from simulators.github.model import CheckSuite, Repository, User
from simulators.github.platform import Platform
from simulators.github.shapes.checks import suite_json
from simulators.github.shapes.commits import push_commit_json
from simulators.github.shapes.repositories import page_url, push_repository_json

MAX_LISTED = 20  # GitHub lists at most this many commits in a push body


def after_ref_update(
    platform: Platform, repository: Repository, ref: str, old: str, new: str, actor: User
) -> None:
    """Everything that follows from a ref that has just moved from ``old`` to ``new`` (40 zeros: not there)."""
    if old == new or not ref.startswith(("refs/heads/", "refs/tags/")):
        return
    world = platform.world
    repository.pushed_at = repository.updated_at = world.now()
    short = ref.split("/", 2)[2]
    kind = "branch" if ref.startswith("refs/heads/") else "tag"
    if kind == "branch":
        if world.repositories and repository.git.find_ref(f"refs/heads/{repository.default_branch}") is None:
            _adopt_first_branch(repository, short)
        _update_pulls(platform, repository, short, new, actor)
    if old == ZERO:
        body = {
            "ref": short,
            "ref_type": kind,
            "master_branch": repository.default_branch,
            "description": repository.description,
            "pusher_type": "user",
        }
        platform.emit("create", repository, actor, body)
    _emit_push(platform, repository, ref, old, new, actor)
    if new == ZERO:
        body = {"ref": short, "ref_type": kind, "pusher_type": "user"}
        platform.emit("delete", repository, actor, body)
    elif kind == "branch":
        _request_suites(platform, repository, short, old, new, actor)


def _adopt_first_branch(repository: Repository, branch: str) -> None:
    """The first branch pushed to an empty repository becomes its default branch."""
    if list(repository.git.refs()) == [f"refs/heads/{branch}"]:
        repository.default_branch = branch
        repository.git.set_head(branch)


def _update_pulls(platform: Platform, repository: Repository, branch: str, new: str, actor: User) -> None:
    for parent in list(platform.world.repositories.values()):
        for issue, pull in list(platform.world.pulls(parent)):
            if issue.state != "open":
                continue
            if pull.head_repo_id == repository.id and pull.head_ref == branch:
                if new == ZERO:
                    close_pull(platform, parent, issue, actor)
                else:
                    follow_head(platform, parent, issue, repository, new, actor)
            elif parent is repository and pull.base_ref == branch:
                if new == ZERO:
                    close_pull(platform, parent, issue, actor)
                else:
                    pull.base_sha = new


def _emit_push(platform: Platform, repository: Repository, ref: str, old: str, new: str, actor: User) -> None:
    git = repository.git
    shas: list[str] = []
    forced = False
    if new != ZERO and git.kind(new) == "commit":
        forced = old != ZERO and not git.is_ancestor(old, new)
        default = git.find_ref(f"refs/heads/{repository.default_branch}")
        start = old if old != ZERO else default
        fresh = start is not None and start != new
        shas = git.log(f"{start}..{new}", limit=MAX_LISTED)[::-1] if fresh else []
        if start is None or (old == ZERO and ref == f"refs/heads/{repository.default_branch}"):
            shas = git.log(new, limit=MAX_LISTED)[::-1]
    commits = [push_commit_json(platform.world, repository, sha) for sha in shas]
    head = None if new == ZERO else push_commit_json(platform.world, repository, new)
    page = page_url(platform.world, repository)
    body = {
        "ref": ref,
        "before": old,
        "after": new,
        "repository": push_repository_json(platform.world, repository),
        "pusher": {"name": actor.login, "email": actor.email},
        "created": old == ZERO,
        "deleted": new == ZERO,
        "forced": forced,
        "base_ref": None,
        "compare": f"{page}/compare/{old[:12]}...{new[:12]}",
        "commits": commits,
        "head_commit": head,
    }
    platform.emit("push", repository, actor, body)


def _request_suites(
    platform: Platform, repository: Repository, branch: str, old: str, new: str, actor: User
) -> None:
    """A pushed head gets a check suite for each App that may write checks."""
    for installation in platform.world.installations_on(repository):
        if installation.permissions.get("checks") == "write" and installation.suspended_at is None:
            suite = ensure_suite(platform, repository, installation.app_id, new, branch, old)
            body = {"action": "requested", "check_suite": suite_json(platform.world, repository, suite)}
            platform.emit("check_suite", repository, actor, body, only_app=installation.app_id)


def ensure_suite(
    platform: Platform,
    repository: Repository,
    app_id: int,
    sha: str,
    branch: str | None = None,
    before: str | None = None,
) -> CheckSuite:
    """The suite of an App on a head; made when there is none."""
    for suite in repository.suites:
        if suite.app_id == app_id and suite.head_sha == sha:
            return suite
    if branch is None:
        heads = repository.git.refs()
        branch = next((name.removeprefix("refs/heads/") for name, at in heads.items() if at == sha), None)
    now = platform.world.now()
    suite = CheckSuite(platform.world.new_id(), repository.id, app_id, sha, branch, before or ZERO, now, now)
    repository.suites.append(suite)
    return suite


def move_ref(
    platform: Platform, repository: Repository, ref: str, new: str, actor: User, *, expect: str | None = None
) -> None:
    """Points a ref at ``new`` (40 zeros: deletes it) and lets everything follow; GitError when git refuses."""
    old = repository.git.find_ref(ref) or ZERO
    if new == ZERO:
        repository.git.delete_ref(ref)
    else:
        repository.git.set_ref(ref, new, expect)
    after_ref_update(platform, repository, ref, old, new, actor)
