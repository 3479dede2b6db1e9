"""Users, Apps and installations as JSON."""

from typing import Any

from simulators.github.clock import iso, iso_or_none
from simulators.github.model import App, Installation, User
from simulators.github.nodes import node_id
from simulators.github.world import World

Json = dict[str, Any]


def user_json(world: World, user_id: int | None) -> Json | None:
    """A simple user; None stays None (a ghost)."""
    return None if user_id is None else account_json(world, world.users[user_id])


def account_json(world: World, user: User) -> Json:
    """A simple user."""
    api = f"{world.base_url}/users/{user.login}"
    page = f"{world.base_url}/{user.login}"
    app = world.bot_app(user)
    return {
        "login": user.login,
        "id": user.id,
        "node_id": node_id(user.kind, user.id),
        "avatar_url": f"{world.base_url}/_static/avatar.svg?u={user.id}",
        "gravatar_id": "",
        "url": api,
        "html_url": f"{world.base_url}/apps/{app.slug}" if app else page,
        "followers_url": f"{api}/followers",
        "following_url": f"{api}/following{{/other_user}}",
        "gists_url": f"{api}/gists{{/gist_id}}",
        "starred_url": f"{api}/starred{{/owner}}{{/repo}}",
        "subscriptions_url": f"{api}/subscriptions",
        "organizations_url": f"{api}/orgs",
        "repos_url": f"{api}/repos",
        "events_url": f"{api}/events{{/privacy}}",
        "received_events_url": f"{api}/received_events",
        "type": user.kind,
        "user_view_type": "public",
        "site_admin": False,
    }


def public_user_json(world: World, user: User) -> Json:
    """What ``GET /users/{login}`` says."""
    owned = [
        found for found in world.repositories.values() if found.owner_id == user.id and not found.private
    ]
    return {
        **account_json(world, user),
        "name": user.name,
        "company": None,
        "blog": "",
        "location": None,
        "email": None,
        "hireable": None,
        "bio": None,
        "twitter_username": None,
        "public_repos": len(owned),
        "public_gists": 0,
        "followers": 0,
        "following": 0,
        "created_at": iso(user.created_at),
        "updated_at": iso(user.created_at),
    }


def organization_json(world: World, user: User) -> Json:
    """The ``organization`` of a webhook body."""
    api = f"{world.base_url}/orgs/{user.login}"
    return {
        "login": user.login,
        "id": user.id,
        "node_id": node_id(user.kind, user.id),
        "url": api,
        "repos_url": f"{api}/repos",
        "events_url": f"{api}/events",
        "hooks_url": f"{api}/hooks",
        "issues_url": f"{api}/issues",
        "members_url": f"{api}/members{{/member}}",
        "public_members_url": f"{api}/public_members{{/member}}",
        "avatar_url": f"{world.base_url}/_static/avatar.svg?u={user.id}",
        "description": None,
    }


def app_json(world: World, app: App) -> Json:
    """A GitHub App as others see it."""
    return {
        "id": app.id,
        "client_id": app.client_id,
        "slug": app.slug,
        "node_id": node_id("App", app.id),
        "owner": user_json(world, app.owner_id),
        "name": app.name,
        "description": app.description,
        "external_url": app.external_url,
        "html_url": f"{world.base_url}/apps/{app.slug}",
        "created_at": iso(app.created_at),
        "updated_at": iso(app.created_at),
        "permissions": app.permissions,
        "events": app.events,
    }


def own_app_json(world: World, app: App) -> Json:
    """What ``GET /app`` says."""
    count = sum(1 for found in world.installations.values() if found.app_id == app.id and not found.deleted)
    return {**app_json(world, app), "installations_count": count}


def installation_json(world: World, installation: Installation) -> Json:
    """An installation as the API shows it."""
    account = world.users[installation.account_id]
    scope = f"organizations/{account.login}/" if account.kind == "Organization" else ""
    app = world.apps[installation.app_id]
    return {
        "id": installation.id,
        "client_id": app.client_id,
        "account": account_json(world, account),
        "repository_selection": installation.selection,
        "access_tokens_url": f"{world.base_url}/app/installations/{installation.id}/access_tokens",
        "repositories_url": f"{world.base_url}/installation/repositories",
        "html_url": f"{world.base_url}/{scope}settings/installations/{installation.id}",
        "app_id": app.id,
        "app_slug": app.slug,
        "target_id": account.id,
        "target_type": account.kind,
        "permissions": installation.permissions,
        "events": installation.events,
        "created_at": iso(installation.created_at),
        "updated_at": iso(installation.updated_at),
        "single_file_name": None,
        "has_multiple_single_files": False,
        "single_file_paths": [],
        "suspended_by": user_json(world, installation.suspended_by),
        "suspended_at": iso_or_none(installation.suspended_at),
    }
