"""Where facts are kept, and what rings."""

from __future__ import annotations

from sqlalchemy.exc import SQLAlchemyError

from app.cli.doctor.verdict import Verdict, failed, ok, warning
from app.db.reach import try_write
from app.db.schema import schema_state, shown_url
from app.queue.embedded import find_running, find_server
from app.queue.reach import try_redis
from app.settings import Settings


async def check_database(settings: Settings) -> Verdict:
    """Raises SettingsError for an SQLite database without a file."""
    name = shown_url(settings.database)
    try:
        state = await schema_state(settings.database)
        if state == "current":
            await try_write(settings.database)
    except (SQLAlchemyError, OSError) as error:
        cause = getattr(error, "orig", None) or error
        return failed(f"{name}: {cause or type(cause).__name__}", "see that it runs, and set DATABASE_URL")
    if state == "newer":
        return failed(
            f"{name} was made by a newer release",
            "install that release, or restore the backup beside the database",
        )
    if state == "foreign":
        return failed(
            f"{name} belongs to another program, whose tables are in the way",
            "set DATABASE_URL to a database of issuewright's own",
        )
    if state == "older":
        return failed(f"{name} is at an older schema", "run `issuewright migrate` (`up` does it by itself)")
    if state == "empty":
        return warning(f"{name} is not there yet", "`issuewright up` or `issuewright migrate` makes it")
    return ok(f"{name} is at this release's schema, and can be written")


async def check_redis(settings: Settings) -> Verdict:
    """Raises SettingsError when there is neither a REDIS_URL nor a server to embed."""
    url = settings.redis_url or find_running(settings.issuewright_home)
    if url is None:
        return warning(f"the embedded server ({find_server()}) does not run", "`issuewright up` starts it")
    trouble = await try_redis(url)
    kind = "REDIS_URL" if settings.redis_url else "the embedded server"
    if trouble:
        return failed(
            f"{kind}: {trouble}", "see that it runs and can be written; until then everything is slower"
        )
    return ok(f"{kind} keeps what it is given")
