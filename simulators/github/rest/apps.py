"""``/app``, installations and their tokens."""

from simulators.github.auth import LEVELS, mint_token
from simulators.github.clock import iso
from simulators.github.errors import ApiError, not_found
from simulators.github.model import Installation, Repository
from simulators.github.rest.routing import Call, Json, Reply, created, no_content, route
from simulators.github.shapes.accounts import installation_json, own_app_json
from simulators.github.shapes.repositories import full_repository_json

SUSPENDED = "This installation has been suspended"
MAX_REPOSITORIES = 500


@route("GET", "/app", caller="app")
def get_app(call: Call) -> Json:
    """The calling App."""
    return own_app_json(call.world, call.caller.app)


def own_installations(call: Call) -> list[Installation]:
    """Live installations of the calling App."""
    app_id = call.caller.app.id
    return [
        found for found in call.world.installations.values() if found.app_id == app_id and not found.deleted
    ]


def own_installation(call: Call) -> Installation:
    """Installation ``{installation_id}`` of the calling App, or 404."""
    for found in own_installations(call):
        if found.id == call.number("installation_id"):
            return found
    raise not_found()


@route("GET", "/app/installations", caller="app")
def list_installations(call: Call) -> Json:
    """All installations of the App."""
    return [installation_json(call.world, found) for found in call.page(own_installations(call))]


@route("GET", "/app/installations/{installation_id:int}", caller="app")
def get_installation(call: Call) -> Json:
    """One installation."""
    return installation_json(call.world, own_installation(call))


@route("GET", "/repos/{owner}/{repo}/installation", caller="app")
def get_repository_installation(call: Call) -> Json:
    """The App's installation that covers a repository."""
    for found in call.world.installations_on(call.repository):
        if found.app_id == call.caller.app.id:
            return installation_json(call.world, found)
    raise not_found()


@route("POST", "/app/installations/{installation_id:int}/access_tokens", caller="app")
def create_access_token(call: Call) -> Json:
    """An installation token, narrowed as asked."""
    installation = own_installation(call)
    if installation.suspended_at is not None:
        raise ApiError(403, SUSPENDED)
    selected = narrowed_repositories(call, installation)
    permissions = narrowed_permissions(call, installation)
    ids = None if selected is None else frozenset(found.id for found in selected)
    value, token = mint_token(call.world, installation, ids, permissions)
    body: dict[str, Json] = {
        "token": value,
        "expires_at": iso(token.expires_at),
        "permissions": permissions,
        "repository_selection": "selected" if selected is not None else installation.selection,
    }
    if selected is not None:
        body["repositories"] = [full_repository_json(call.world, found, permissions) for found in selected]
    return created(body)


def narrowed_repositories(call: Call, installation: Installation) -> list[Repository] | None:
    """The repositories a new token is for; None for all of the installation; 422 for others."""
    ids, names = call.payload.get("repository_ids"), call.payload.get("repositories")
    if ids is None and names is None:
        return None
    available = call.world.installed_repositories(installation)
    refused = "There is at least one repository that does not exist or is not accessible to the parent installation."
    chosen = {
        found.id: found for found in available if found.id in (ids or []) or found.name in (names or [])
    }
    if len(ids or []) > MAX_REPOSITORIES or len(chosen) < max(len(set(ids or [])), len(set(names or []))):
        raise ApiError(422, refused)
    return list(chosen.values())


def narrowed_permissions(call: Call, installation: Installation) -> dict[str, str]:
    """The permissions a new token has; 422 for more than the installation granted."""
    asked = call.payload.get("permissions")
    if asked is None:
        return dict(installation.permissions)
    if not isinstance(asked, dict):
        raise ApiError(422, "Invalid request.\n\nFor 'properties/permissions', it is not an object.")
    for name, level in asked.items():
        if LEVELS.get(level, 9) > LEVELS.get(installation.permissions.get(name, ""), 0):
            raise ApiError(422, "The permissions requested are not granted to this installation.")
    return {"metadata": "read", **asked}


@route("GET", "/installation/repositories")
def list_token_repositories(call: Call) -> Json:
    """The repositories the token reaches."""
    caller = call.caller
    if caller.installation is None or caller.token is None:
        raise not_found()
    seen = [
        found
        for found in call.world.installed_repositories(caller.installation)
        if caller.sees(found, call.world)
    ]
    shown = [full_repository_json(call.world, found, caller.token.permissions) for found in call.page(seen)]
    selection = "selected" if caller.token.repo_ids is not None else caller.installation.selection
    return {"total_count": len(seen), "repository_selection": selection, "repositories": shown}


@route("DELETE", "/installation/token")
def revoke_token(call: Call) -> Reply:
    """Ends the token that makes this call."""
    if call.caller.token is not None:
        call.caller.token.revoked = True
    return no_content()
