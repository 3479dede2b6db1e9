"""Small routes about the service itself."""

from simulators.github.rest.routing import Call, Json, Reply, route


@route("GET", "/meta", caller="anyone")
def get_meta(_call: Call) -> Json:
    """Almost nothing: no addresses, no keys."""
    return {
        "verifiable_password_authentication": False,
        "hooks": ["127.0.0.1/32"],
        "web": [],
        "api": [],
        "git": [],
    }


@route("GET", "/zen", caller="anyone")
def get_zen(_call: Call) -> Json:
    """A sentence as text."""
    return Reply(text="Anything added dilutes everything else.")


@route("GET", "/versions", caller="anyone")
def get_versions(_call: Call) -> Json:
    """API versions understood here."""
    return ["2026-03-10", "2022-11-28"]
