"""`issuewright sandboxes cleanup`: what crashed runs left, taken down once the database agrees that nobody needs it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from app.cli.preflight import require_key
from app.db.accounts import StoredAccounts
from app.db.cipher import Cipher
from app.db.engine import Database
from app.db.host import host_id
from app.db.leftovers import find_newest_name, list_known_sandboxes, record_removed
from app.db.schema import require_current_schema
from app.domain.errors import OutsideError, SettingsError
from app.domain.leftovers import Finding, Leftover, decide_leftovers, instance_of
from app.domain.ports import Sandboxes
from app.github.access import GitHubAccess
from app.github.instance import instance_name
from app.observability.redaction import register_secret
from app.sandbox.select import make_sandboxes
from app.settings import Settings
from app.web.sockets import gateway_dir


async def clean_up(settings: Settings, *, dry_run: bool) -> list[dict[str, Any]]:
    """What was found, each with what was done about it. Running it twice, or beside a worker, is fine."""
    await require_current_schema(settings.database)
    home = settings.issuewright_home
    async with aclosing(Database(settings.database)) as database:
        instance = await _instance(settings, database)
        accounts = StoredAccounts(database, Cipher(settings.credential_keys), register_secret)
        sandboxes = make_sandboxes(settings.provider, home, gateway_dir(home), settings, instance, accounts)
        async with aclosing(sandboxes):
            found = await _find(settings, instance, database, sandboxes)
            done = [await _take_down(database, sandboxes, one, dry_run=dry_run) for one in found]
    return [{**asdict(one), "done": what} for one, what in zip(found, done, strict=True)]


async def _instance(settings: Settings, database: Database) -> str:
    """Whose machines are looked for: the App's; where its settings are not at hand, those of whoever made the newest
    sandbox of this database. Raises SettingsError when neither says so.
    """
    if settings.github_app_id and settings.github_app_private_key:
        require_key(settings)
        return instance_name(
            GitHubAccess(
                settings.github_api_url,
                settings.github_url,
                settings.github_app_id,
                settings.private_key_pem or "",
            )
        )
    async with database.read() as session:
        name = await find_newest_name(session)
    if name is None:
        raise SettingsError(
            "GITHUB_APP_ID, GITHUB_APP_PRIVATE_KEY: not set, and this database has no sandbox that would tell whose "
            "machines to look for; set them, or DATABASE_URL"
        )
    return instance_of(name)


async def _find(
    settings: Settings, instance: str, database: Database, sandboxes: Sandboxes
) -> Sequence[Finding]:
    sights = await sandboxes.list_owned()
    here = None if sandboxes.kind == "daytona" else host_id(settings.issuewright_home)
    async with database.read() as session:
        known = await list_known_sandboxes(session, sandboxes.kind, here, [sight.name for sight in sights])
    return decide_leftovers(instance, sights, known, datetime.now(UTC))


async def _take_down(database: Database, sandboxes: Sandboxes, found: Finding, *, dry_run: bool) -> str:
    if dry_run:
        return "would be deleted" if found.kind is Leftover.MACHINE else "would be noted as removed"
    try:
        if found.kind is Leftover.MACHINE:
            await sandboxes.ensure_deleted(found.name)
        async with database.write() as session:
            await record_removed(session, found.name, datetime.now(UTC))
    except OutsideError as error:
        return f"failed: {error}"
    return "deleted" if found.kind is Leftover.MACHINE else "noted as removed"
