"""Users, organizations, Apps."""

from typing import Any

from simulators.github.actions import setup
from simulators.github.control_api.registry import Json, Simulation, control
from simulators.github.rest.manifest import new_key_pair
from simulators.github.shapes.accounts import account_json, app_json


@control("users/create")
def create_user(sim: Simulation, login: str, user_id: int | None = None) -> Json:
    """A person."""
    return account_json(sim.world, setup.create_user(sim.platform, login, user_id=user_id))


@control("orgs/create")
def create_org(sim: Simulation, login: str, owners: list[str], members: list[str] | None = None) -> Json:
    """An organization with its owners and members."""
    org = setup.create_user(sim.platform, login, kind="Organization")
    org.members = {sim.world.user(name).id: "member" for name in members or []}
    org.members.update({sim.world.user(name).id: "admin" for name in owners})
    return account_json(sim.world, org)


@control("apps/create")
def create_app(
    sim: Simulation,
    name: str,
    owner: str,
    permissions: dict[str, str],
    events: list[str],
    public_key: str | None = None,
    webhook_url: str | None = None,
    webhook_secret: str | None = None,
) -> Json:
    """A registered App. Without ``public_key`` a key pair is made, and the answer has ``pem``."""
    private = None
    if public_key is None:
        private, public_key = new_key_pair()
    app = setup.create_app(sim.platform, name, sim.world.user(owner), public_key, permissions, events)
    app.webhook_url, app.webhook_secret, app.private_key_pem = webhook_url, webhook_secret, private
    bot = sim.world.users[app.bot_id]
    return {**app_json(sim.world, app), "pem": private, "bot": account_json(sim.world, bot)}


@control("apps/update")
def update_app(sim: Simulation, app_id: int, ping: bool = False, **fields: Any) -> Json:
    """Changes an App: webhook_url, webhook_secret, public_key_pem, permissions, events, webhook_active."""
    app = sim.world.apps[app_id]
    allowed = {"webhook_url", "webhook_secret", "public_key_pem", "permissions", "events", "webhook_active"}
    if not set(fields) <= allowed:
        raise ValueError(f"an App has only {sorted(allowed)}")
    for name, value in fields.items():
        setattr(app, name, value)
    if ping:
        sim.platform.ping(app)
    return app_json(sim.world, app)


@control("apps/delete")
def delete_app(sim: Simulation, app_id: int) -> Json:
    """The App is gone: its JWTs and tokens are refused."""
    app = sim.world.apps.pop(app_id)
    for installation in sim.world.installations.values():
        if installation.app_id == app_id:
            installation.deleted = True
    return {"deleted": app.slug}
