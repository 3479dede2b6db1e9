"""Installations as an account's owner changes them."""

from simulators.github.actions import installations as actions
from simulators.github.auth import mint_token
from simulators.github.control_api.registry import Json, Simulation, control
from simulators.github.model import Installation
from simulators.github.shapes.accounts import installation_json


@control("installations/create")
def install(
    sim: Simulation, app_id: int, account: str, by: str | None = None, repos: list[str] | None = None
) -> Json:
    """Installs an App for all repositories of an account, or for ``repos`` (full names)."""
    chosen = None if repos is None else [sim.world.repository(name) for name in repos]
    target = sim.world.user(account)
    actor = sim.actor(by) if by else target
    made = actions.install(sim.platform, sim.world.apps[app_id], target, actor, chosen)
    return installation_json(sim.world, made)


def find(sim: Simulation, installation_id: int) -> Installation:
    """A live installation; LookupError."""
    return sim.world.installations[installation_id]


@control("installations/suspend")
def suspend(sim: Simulation, installation_id: int, by: str, suspended: bool = True) -> Json:
    """Suspends or unsuspends."""
    actions.set_suspended(sim.platform, find(sim, installation_id), sim.actor(by), suspended)
    return installation_json(sim.world, find(sim, installation_id))


@control("installations/delete")
def uninstall(sim: Simulation, installation_id: int, by: str) -> Json:
    """Uninstalls."""
    actions.uninstall(sim.platform, find(sim, installation_id), sim.actor(by))
    return {"deleted": installation_id}


@control("installations/accept")
def accept(sim: Simulation, installation_id: int, by: str, permissions: dict[str, str] | None = None) -> Json:
    """Accepts the App's present permissions, or sets exactly the given ones."""
    actions.accept_permissions(sim.platform, find(sim, installation_id), sim.actor(by), permissions)
    return installation_json(sim.world, find(sim, installation_id))


@control("installations/repositories")
def change_repositories(
    sim: Simulation,
    installation_id: int,
    by: str,
    add: list[str] | None = None,
    remove: list[str] | None = None,
) -> Json:
    """Adds or removes repositories (full names)."""
    added = [sim.world.repository(name) for name in add or []]
    removed = [sim.world.repository(name) for name in remove or []]
    actions.change_repositories(sim.platform, find(sim, installation_id), sim.actor(by), added, removed)
    return installation_json(sim.world, find(sim, installation_id))


@control("installations/token")
def token(
    sim: Simulation,
    installation_id: int,
    permissions: dict[str, str] | None = None,
    repos: list[str] | None = None,
) -> Json:
    """A token without the JWT dance, for tests that only need one."""
    installation = find(sim, installation_id)
    ids = None if repos is None else frozenset(sim.world.repository(name).id for name in repos)
    value, _ = mint_token(sim.world, installation, ids, permissions or installation.permissions)
    return {"token": value}


@control("tokens/expire")
def expire_tokens(sim: Simulation) -> Json:
    """Revokes every installation token given out so far."""
    for found in sim.world.tokens.values():
        found.revoked = True
    return {"revoked": len(sim.world.tokens)}


@control("apps/authorization")
def revoke_authorization(sim: Simulation, app_id: int, by: str) -> Json:
    """A person revokes their authorization: ``github_app_authorization.revoked``."""
    actions.revoke_authorization(sim.platform, sim.world.apps[app_id], sim.actor(by))
    return {}
