"""Repositories themselves, and users."""

from simulators.github.errors import not_found
from simulators.github.rest.routing import Call, Json, route
from simulators.github.shapes.accounts import public_user_json
from simulators.github.shapes.repositories import full_repository_json


@route("GET", "/repos/{owner}/{repo}", "metadata:read")
def get_repository(call: Call) -> Json:
    """One repository."""
    token = call.principal.token if call.principal else None
    return full_repository_json(call.world, call.repository, token.permissions if token else {})


@route("GET", "/users/{login}", caller="anyone")
def get_user(call: Call) -> Json:
    """A person, organization or bot by login."""
    user = call.world.find_user(call.params["login"])
    if user is None:
        raise not_found()
    return public_user_json(call.world, user)


@route("GET", "/user/{user_id:int}", caller="anyone")
def get_user_by_id(call: Call) -> Json:
    """The same by number."""
    user = call.world.users.get(call.number("user_id"))
    if user is None:
        raise not_found()
    return public_user_json(call.world, user)
