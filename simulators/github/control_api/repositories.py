"""Repositories, collaborators, branches."""

import secrets
from typing import Any

from simulators.github.actions import repositories as actions, setup
from simulators.github.actions.refs import move_ref
from simulators.github.control_api.registry import Json, Simulation, control
from simulators.github.git import ZERO
from simulators.github.model import ROLES, Repository
from simulators.github.shapes.commits import git_commit_json
from simulators.github.shapes.repositories import repository_json

PLAIN = {"has_issues", "drafts_allowed", "description", "disabled"}


def shown(sim: Simulation, repository: Repository) -> Json:
    """A repository, with where it is on disk."""
    return {**repository_json(sim.world, repository), "path": str(repository.git.path)}


@control("repos/create")
def create_repo(
    sim: Simulation,
    owner: str,
    name: str,
    files: dict[str, str] | None = None,
    private: bool = True,
    default_branch: str = "main",
    message: str = "Initial commit",
    by: str | None = None,
    branches: list[str] | None = None,
    parent: str | None = None,
) -> Json:
    """A repository: empty without ``files``; ``branches`` start at the same commit; ``parent`` makes it a fork."""
    account = sim.world.user(owner)
    repository = setup.create_repository(sim.platform, account, name, default_branch=default_branch)
    repository.private = private
    if parent is not None:
        _fork(repository, sim.world.repository(parent))
    if files:
        author = sim.world.user(by) if by else account
        sha = setup.commit_files(sim.platform, repository, author, files, message, None)
        for branch in (default_branch, *(branches or [])):
            repository.git.set_ref(f"refs/heads/{branch}", sha)
    return shown(sim, repository)


def _fork(repository: Repository, parent: Repository) -> None:
    repository.parent_id, repository.default_branch = parent.id, parent.default_branch
    for ref, sha in parent.git.refs().items():
        repository.git.fetch_from(parent.git, sha, ref)
    repository.git.set_head(parent.default_branch)


@control("repos/update")
def update_repo(sim: Simulation, repo: str, **fields: Any) -> Json:
    """Settings without an event: has_issues, drafts_allowed, description, disabled."""
    if not set(fields) <= PLAIN:
        raise ValueError(f"only {sorted(PLAIN)} can be set this way")
    repository = sim.world.repository(repo)
    for name, value in fields.items():
        setattr(repository, name, value)
    return shown(sim, repository)


@control("repos/change")
def change_repo(
    sim: Simulation,
    repo: str,
    by: str,
    name: str | None = None,
    owner: str | None = None,
    archived: bool | None = None,
    private: bool | None = None,
    default_branch: str | None = None,
) -> Json:
    """Renames, transfers, archives, hides or re-heads a repository, with the events."""
    repository, actor = sim.world.repository(repo), sim.actor(by)
    if name is not None:
        actions.rename(sim.platform, repository, actor, name)
    if owner is not None:
        actions.transfer(sim.platform, repository, actor, sim.world.user(owner))
    if archived is not None:
        actions.set_archived(sim.platform, repository, actor, archived)
    if private is not None:
        actions.set_private(sim.platform, repository, actor, private)
    if default_branch is not None:
        actions.set_default_branch(sim.platform, repository, actor, default_branch)
    return shown(sim, repository)


@control("repos/delete")
def delete_repo(sim: Simulation, repo: str, by: str) -> Json:
    """Deletes a repository."""
    actions.delete(sim.platform, sim.world.repository(repo), sim.actor(by))
    return {"deleted": repo}


@control("repos/collaborator")
def set_collaborator(sim: Simulation, repo: str, login: str, role: str) -> Json:
    """Gives somebody a role (none, read, triage, write, maintain, admin)."""
    if role not in ROLES:
        raise ValueError(f"a role is one of {', '.join(ROLES)}")
    repository, user = sim.world.repository(repo), sim.world.user(login)
    repository.collaborators.pop(user.id, None)
    if role != "none":
        repository.collaborators[user.id] = role
    return {"role_name": sim.world.role(repository, user)}


@control("repos/protect")
def protect(sim: Simulation, repo: str, branch: str, rule: str | None = "pull_request") -> Json:
    """Protects branches (a pattern): rule pull_request, signatures, ruleset; None takes the protection off."""
    repository = sim.world.repository(repo)
    repository.protected.pop(branch, None)
    if rule is not None:
        repository.protected[branch] = rule
    return repository.protected


@control("repos/secrets")
def push_protection(sim: Simulation, texts: list[str]) -> Json:
    """Texts that push protection refuses."""
    sim.platform.push_protection = texts
    return {"texts": len(texts)}


@control("branches/push")
def push_files(
    sim: Simulation,
    repo: str,
    by: str,
    branch: str,
    files: dict[str, str | None],
    message: str = "Update files",
    force: bool = False,
    from_branch: str | None = None,
) -> Json:
    """A commit by a person on a branch (made from ``from_branch`` or the default one when new).

    ``force`` replaces the branch's last commit instead of adding to it, as an amended push does.
    """
    repository, actor = sim.world.repository(repo), sim.actor(by)
    git = repository.git
    start = git.find_ref(f"refs/heads/{branch}")
    if start is None:
        start = git.find_ref(f"refs/heads/{from_branch or repository.default_branch}")
    elif force:
        parents = git.commit(start).parents
        start = parents[0] if parents else None
        message = f"{message}\n\nReplaces what was here ({secrets.token_hex(4)})."
    sha = setup.commit_files(sim.platform, repository, actor, files, message, start)
    move_ref(sim.platform, repository, f"refs/heads/{branch}", sha, actor)
    return git_commit_json(sim.world, repository, sha)


@control("branches/create")
def create_branch(sim: Simulation, repo: str, by: str, branch: str, at: str | None = None) -> Json:
    """A branch at a branch, tag or sha (the default branch's head without ``at``)."""
    repository = sim.world.repository(repo)
    sha = repository.git.find_commit_sha(at or repository.default_branch)
    if sha is None:
        raise LookupError(f"no commit {at}")
    move_ref(sim.platform, repository, f"refs/heads/{branch}", sha, sim.actor(by))
    return {"ref": f"refs/heads/{branch}", "sha": sha}


@control("branches/delete")
def delete_branch(sim: Simulation, repo: str, by: str, branch: str) -> Json:
    """Deletes a branch; open pull requests on it close."""
    repository = sim.world.repository(repo)
    move_ref(sim.platform, repository, f"refs/heads/{branch}", ZERO, sim.actor(by))
    return {"deleted": branch}
