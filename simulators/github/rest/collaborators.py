"""What somebody may do on a repository."""

from simulators.github.errors import not_found
from simulators.github.rest.routing import Call, Json, route
from simulators.github.shapes.accounts import account_json
from simulators.github.world import COARSE


@route("GET", "/repos/{owner}/{repo}/collaborators/{login}/permission", "metadata:read")
def get_permission(call: Call) -> Json:
    """``permission`` (admin, write, read, none) and the finer ``role_name``."""
    user = call.world.find_user(call.params["login"])
    if user is None:
        raise not_found()
    role = call.world.role(call.repository, user)
    held = COARSE[role]
    flags = {
        "admin": role == "admin",
        "maintain": role in ("maintain", "admin"),
        "push": held in ("write", "admin"),
        "triage": role in ("triage", "write", "maintain", "admin"),
        "pull": role != "none",
    }
    shape = {**account_json(call.world, user), "permissions": flags, "role_name": role}
    return {"permission": held, "user": shape, "role_name": role}
