"""What happens to whole repositories."""

from typing import Any

from simulators.github.model import Repository, User
from simulators.github.platform import Platform

Json = dict[str, Any]


def emit_repository(
    platform: Platform, repository: Repository, actor: User, action: str, changes: Json | None = None
) -> None:
    """A ``repository`` event."""
    body: Json = {"action": action}
    if changes is not None:
        body["changes"] = changes
    platform.emit("repository", repository, actor, body)


def rename(platform: Platform, repository: Repository, actor: User, name: str) -> None:
    """A new name; the old one leads here with 301. ValueError when it is taken."""
    world = platform.world
    owner = world.users[repository.owner_id].login
    if world.find_repository(owner, name):
        raise ValueError(f"{owner}/{name} exists already")
    old = repository.name
    world.former_names[(owner.lower(), old.lower())] = repository.id
    repository.name = name
    emit_repository(platform, repository, actor, "renamed", {"repository": {"name": {"from": old}}})


def transfer(platform: Platform, repository: Repository, actor: User, owner: User) -> None:
    """Another owner; installations on the old one lose sight of it."""
    world = platform.world
    old = world.users[repository.owner_id]
    world.former_names[(old.login.lower(), repository.name.lower())] = repository.id
    for installation in world.installations.values():
        installation.repo_ids.discard(repository.id)
    repository.owner_id = owner.id
    key = "organization" if old.kind == "Organization" else "user"
    changes = {"owner": {"from": {key: {"login": old.login, "id": old.id}}}}
    emit_repository(platform, repository, actor, "transferred", changes)


def set_archived(platform: Platform, repository: Repository, actor: User, archived: bool) -> None:
    """Archives or unarchives."""
    repository.archived = archived
    emit_repository(platform, repository, actor, "archived" if archived else "unarchived")


def set_private(platform: Platform, repository: Repository, actor: User, private: bool) -> None:
    """Private or public."""
    repository.private = private
    emit_repository(platform, repository, actor, "privatized" if private else "publicized")


def set_default_branch(platform: Platform, repository: Repository, actor: User, branch: str) -> None:
    """Another default branch; LookupError when there is no such branch."""
    if repository.git.find_ref(f"refs/heads/{branch}") is None:
        raise LookupError(f"no branch {branch}")
    old, repository.default_branch = repository.default_branch, branch
    repository.git.set_head(branch)
    emit_repository(platform, repository, actor, "edited", {"default_branch": {"from": old}})


def delete(platform: Platform, repository: Repository, actor: User) -> None:
    """Deletes a repository."""
    emit_repository(platform, repository, actor, "deleted")
    repository.deleted = True
