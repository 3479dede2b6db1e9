"""`issuewright sandboxes cleanup`: what crashed runs left, taken down once the database agrees that nobody needs it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from app.db.accounts import StoredAccounts
from app.db.cipher import Cipher
from app.db.engine import Database
from app.db.host import host_id
from app.db.leftovers import list_known_sandboxes, record_removed
from app.db.schema import require_current_schema
from app.domain.errors import OutsideError
from app.domain.leftovers import Finding, Leftover, decide_leftovers
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
    access = GitHubAccess(
        settings.github_api_url,
        settings.github_url,
        settings.github_app_id or 0,
        settings.private_key_pem or "",
    )
    home, instance = settings.issuewright_home, instance_name(access)
    async with aclosing(Database(settings.database)) as database:
        accounts = StoredAccounts(database, Cipher(settings.credential_keys), register_secret)
        sandboxes = make_sandboxes(settings.provider, home, gateway_dir(home), settings, instance, accounts)
        async with aclosing(sandboxes):
            found = await _find(settings, instance, database, sandboxes)
            done = [await _take_down(database, sandboxes, one, dry_run=dry_run) for one in found]
    return [{**asdict(one), "done": what} for one, what in zip(found, done, strict=True)]


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
