"""`issuewright migrate`."""

from __future__ import annotations

import asyncio

from app.cli.options import ConfigOption, load


def migrate(config: ConfigOption = None) -> None:
    """Bring the database to the newest schema.

    Safe to run at any time and from several places at once. An SQLite database is copied first; the copy stays beside
    it, named by the schema it has.
    """
    settings = load(config)

    from app.db.migrate import migrate as bring_up_to_date
    from app.settings import ensure_home

    ensure_home(settings)
    applied = asyncio.run(bring_up_to_date(settings.database))
    for revision in applied:
        print(f"applied {revision}")
    if not applied:
        print("nothing to do: the database is at the newest schema")
