"""`issuewright deliveries …`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.options import ConfigOption, JsonOption, LimitOption, load
from app.domain.states import DeliveryState

if TYPE_CHECKING:
    from app.db.models import Delivery
    from app.settings import Settings

app = typer.Typer(help="What GitHub sent.", no_args_is_help=True)

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
        show_rows(COLUMNS, rows, nothing="no deliveries yet")


@app.command()
def replay(
    delivery_id: Annotated[
        str, typer.Argument(metavar="GUID", help="The delivery's GUID, as GitHub shows it too.")
    ],
    config: ConfigOption = None,
) -> None:
    """Take a stored delivery in again, as if it had just come in."""
    asyncio.run(_replay(load(config), delivery_id))
    print(f"{delivery_id} will be taken in again")


async def _list(settings: Settings, limit: int, state: DeliveryState | None) -> list[dict[str, Any]]:
    from app.db.engine import Database
    from app.db.migrate import require_current_schema
    from app.db.replay import list_deliveries

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


async def _replay(settings: Settings, delivery_id: str) -> None:
    from datetime import UTC, datetime

    from app.db.engine import Database
    from app.db.migrate import require_current_schema
    from app.db.replay import record_replay
    from app.domain.errors import IssuewrightError
    from app.queue.doorbell import Doorbell
    from app.queue.embedded import find_running
    from app.queue.jobs import JobName

    await require_current_schema(settings.database)
    now = datetime.now(UTC)
    database = Database(settings.database)
    doorbell = Doorbell(settings.redis_url or find_running(settings.issuewright_home))
    try:
        async with database.write() as session:
            known = await record_replay(session, delivery_id, now)
        if not known:
            raise IssuewrightError(f"no delivery {delivery_id} is stored here")
        # A number no earlier ring for this delivery had; if nobody hears it, the sweep will.
        await doorbell.ring(JobName.INTAKE, delivery_id, int(now.timestamp()))
    finally:
        await doorbell.aclose()
        await database.aclose()
