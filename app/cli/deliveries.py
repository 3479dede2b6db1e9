"""`issuewright deliveries …`."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.options import ConfigOption, JsonOption, LimitOption, load
from app.domain.states import DeliveryState

if TYPE_CHECKING:
    from app.db.models import Delivery
    from app.settings import Settings

app = typer.Typer(help="What GitHub sent.", no_args_is_help=True)

_SPANS = {"min": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}
COLUMNS = ("id", "event", "action", "state", "intent", "repo_id", "issue", "received_at", "reason")


@app.command("list")
def list_(
    config: ConfigOption = None,
    as_json: JsonOption = False,
    limit: LimitOption = 50,
    state: Annotated[DeliveryState | None, typer.Option(help="Only those in this state.")] = None,
) -> None:
    """List deliveries, newest first, and what became of them."""
    from app.cli.show import show_json, show_rows

    rows = asyncio.run(_list(load(config), limit, state))
    if as_json:
        show_json({"items": rows, "next_cursor": None})
    else:
        show_rows(
            COLUMNS, rows, nothing="no deliveries yet" if state is None else f"no delivery is {state.value}"
        )


@app.command()
def replay(
    delivery_id: Annotated[
        str | None, typer.Argument(metavar="GUID", help="The delivery's GUID, as GitHub shows it too.")
    ] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="All that could not be dealt with, instead of one.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Only those received since then: a span like 90min, 2h or 3d, or a time like 2026-01-31T08:00Z.",
        ),
    ] = None,
    config: ConfigOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what will be taken in again as JSON.")
    ] = False,
) -> None:
    """Take a stored delivery in again, as if it had just come in, or with --failed all that failed.

    Safe at any time: what a delivery caused already is not caused twice.
    """
    from app.cli.show import show_json

    if (delivery_id is None) != failed:
        raise typer.BadParameter("give either a GUID or --failed")
    if delivery_id is not None and not delivery_id.isprintable():
        raise typer.BadParameter(f"{delivery_id[:60]!r} is no GUID; `deliveries list` shows them")
    if since is not None and not failed:
        raise typer.BadParameter("--since goes with --failed")
    now = datetime.now(UTC)
    since_at = None if since is None else parse_since(since, now)
    replayed = asyncio.run(_replay(load(config), delivery_id, since_at, now))
    if as_json:
        show_json({"replayed": replayed})
        return
    for guid in replayed:
        print(f"{guid} will be taken in again")
    if not replayed:
        print("nothing to take in again: no such delivery has failed")


def parse_since(text: str, now: datetime) -> datetime:
    """A span back from `now` (`90min`, `2h`, `3d`) or an ISO 8601 time (UTC unless it says otherwise).

    Raises BadParameter for anything else, and for a time that is still to come.
    """
    span = re.fullmatch(r"([0-9]{1,5})(min|h|d)", text)
    if span:
        return now - int(span[1]) * _SPANS[span[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"--since {text}: neither a span (90min, 2h, 3d) nor a time (2026-01-31T08:00Z)"
        ) from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    if moment > now:
        raise typer.BadParameter(f"--since {text}: that time is still to come")
    return moment


async def _list(settings: Settings, limit: int, state: DeliveryState | None) -> list[dict[str, Any]]:
    from app.db.engine import Database
    from app.db.replay import list_deliveries
    from app.db.schema import require_current_schema

    await require_current_schema(settings.database)
    database = Database(settings.database)
    try:
        async with database.read() as session:
            return [_row(one) for one in await list_deliveries(session, limit, state)]
    finally:
        await database.aclose()


def _row(delivery: Delivery) -> dict[str, Any]:
    return {
        "id": delivery.id,
        "event": delivery.event,
        "action": delivery.action,
        "state": delivery.state.value,
        "intent": delivery.intent,
        "reason": delivery.reason,
        "installation_id": delivery.installation_id,
        "repo_id": delivery.repo_id,
        "issue": delivery.issue_number,
        "spec_id": delivery.spec_id,
        "attempts": delivery.attempts,
        "received_at": delivery.received_at.isoformat(),
        "handled_at": delivery.handled_at.isoformat() if delivery.handled_at else None,
    }


async def _replay(
    settings: Settings, delivery_id: str | None, since: datetime | None, now: datetime
) -> list[str]:
    """The GUIDs that were set back. Raises IssuewrightError when the one that was asked for is not stored."""
    from app.db.engine import Database
    from app.db.replay import record_failed_replay, record_replay
    from app.db.schema import require_current_schema
    from app.domain.errors import IssuewrightError
    from app.queue.doorbell import Doorbell
    from app.queue.embedded import find_running
    from app.queue.jobs import JobName

    await require_current_schema(settings.database)
    database = Database(settings.database)
    doorbell = Doorbell(settings.redis_url or find_running(settings.issuewright_home))
    try:
        async with database.write() as session:
            if delivery_id is None:
                replayed = await record_failed_replay(session, since, now)
            else:
                replayed = [delivery_id] if await record_replay(session, delivery_id, now) else []
        if delivery_id is not None and not replayed:
            raise IssuewrightError(
                f"no delivery {delivery_id} is stored here; what never arrived can only be sent again by GitHub"
            )
        if replayed:
            # Who hears of one looks at all that wait. A number no earlier ring for this delivery had; if nobody hears
            # it, the sweep will find them.
            await doorbell.ring(JobName.INTAKE, replayed[0], int(now.timestamp()))
    finally:
        await doorbell.aclose()
        await database.aclose()
    return replayed
