"""Installing Apps, and what becomes of installations."""

from collections.abc import Iterable, Mapping
from typing import Any

from simulators.github.model import App, Installation, Repository, User
from simulators.github.platform import Platform
from simulators.github.shapes.accounts import account_json, installation_json
from simulators.github.shapes.repositories import short_repository_json

Json = dict[str, Any]


def event_installation(platform: Platform, installation: Installation) -> Json:
    """The installation as its events show it: two times are numbers there."""
    return {
        **installation_json(platform.world, installation),
        "created_at": int(installation.created_at.timestamp()),
        "updated_at": int(installation.updated_at.timestamp()),
    }


def short(platform: Platform, repositories: Iterable[Repository]) -> list[Json]:
    """Repositories as installation events list them."""
    return [short_repository_json(one, platform.world.full_name(one)) for one in repositories]


def emit(platform: Platform, installation: Installation, actor: User, action: str) -> None:
    """An ``installation`` event."""
    body: Json = {"action": action, "installation": event_installation(platform, installation)}
    body["repositories"] = short(platform, platform.world.installed_repositories(installation))
    body["requester"] = None
    platform.emit_installation("installation", installation, actor, body)


def install(
    platform: Platform, app: App, account: User, actor: User, repositories: list[Repository] | None
) -> Installation:
    """Installs an App on an account, for all its repositories or the given ones."""
    world = platform.world
    now = world.now()
    selection = "all" if repositories is None else "selected"
    ids = {found.id for found in repositories or []}
    installation = Installation(
        world.new_id(), app.id, account.id, selection, ids, dict(app.permissions), list(app.events), now, now
    )
    world.installations[installation.id] = installation
    emit(platform, installation, actor, "created")
    return installation


def set_suspended(platform: Platform, installation: Installation, actor: User, suspended: bool) -> None:
    """Suspends (tokens answer 403) or unsuspends."""
    installation.suspended_at = platform.world.now() if suspended else None
    installation.suspended_by = actor.id if suspended else None
    emit(platform, installation, actor, "suspend" if suspended else "unsuspend")


def uninstall(platform: Platform, installation: Installation, actor: User) -> None:
    """Removes an installation: its tokens and its routes are gone."""
    emit(platform, installation, actor, "deleted")
    installation.deleted = True


def accept_permissions(
    platform: Platform, installation: Installation, actor: User, permissions: Mapping[str, str] | None
) -> None:
    """The account accepts what the App asks for now (or, to take some away, exactly these)."""
    app = platform.world.apps[installation.app_id]
    installation.permissions = dict(app.permissions if permissions is None else permissions)
    installation.events = list(app.events)
    installation.updated_at = platform.world.now()
    emit(platform, installation, actor, "new_permissions_accepted")


def change_repositories(
    platform: Platform,
    installation: Installation,
    actor: User,
    added: list[Repository],
    removed: list[Repository],
) -> None:
    """Adds to or takes from the repositories of an installation; each with its event."""
    if installation.selection == "all":
        installation.repo_ids = {found.id for found in platform.world.installed_repositories(installation)}
    installation.selection = "selected"
    installation.repo_ids |= {found.id for found in added}
    installation.repo_ids -= {found.id for found in removed}
    for action, changed in (("added", added), ("removed", removed)):
        if changed:
            body = {
                "action": action,
                "installation": event_installation(platform, installation),
                "repository_selection": installation.selection,
                "repositories_added": short(platform, added if action == "added" else []),
                "repositories_removed": short(platform, removed if action == "removed" else []),
                "requester": None,
            }
            platform.emit_installation("installation_repositories", installation, actor, body)


def revoke_authorization(platform: Platform, app: App, actor: User) -> None:
    """A person takes back their authorization of an App."""
    body = {"action": "revoked", "sender": account_json(platform.world, actor)}
    platform.outbox.add(app, platform.outbox.new_delivery(app, "github_app_authorization", body, None, None))
