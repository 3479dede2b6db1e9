"""`issuewright sandboxes …`."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.options import ConfigOption, JsonOption, LimitOption, load

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from app.settings import Settings

    ShowEvent = Callable[[dict[str, Any]], None]

app = typer.Typer(help="Isolated machines, each running one agent.", no_args_is_help=True)

SandboxId = Annotated[
    str, typer.Argument(metavar="ID", help="The sandbox's id, as `sandboxes list` shows it.")
]
FollowOption = Annotated[bool, typer.Option("-f", "--follow", help="Go on until the sandbox has ended.")]
COLUMNS = ("id", "state", "activity", "repository", "issue", "attempt", "spec_id", "updated_at", "reason")


@app.command("list")
def list_(config: ConfigOption = None, as_json: JsonOption = False, limit: LimitOption = 50) -> None:
    """List sandboxes, newest first."""
    from app.cli.listing import show_list

    show_list(load(config), "sandboxes", COLUMNS, limit, as_json=as_json)


@app.command()
def show(sandbox_id: SandboxId, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show one sandbox: its agent's activity, cost and end."""
    from app.cli.listing import show_one

    show_one(load(config), "sandbox", sandbox_id, as_json=as_json)


@app.command()
def events(
    sandbox_id: SandboxId,
    config: ConfigOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    follow: FollowOption = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show the changes of edited files.")] = False,
) -> None:
    """Show what a sandbox reported, oldest first."""
    from app.cli.event_lines import print_event

    settings = load(config)
    asyncio.run(
        _follow_events(
            settings, sandbox_id, lambda one: print_event(one, as_json=as_json, diff=diff), follow=follow
        )
    )


@app.command()
def logs(sandbox_id: SandboxId, config: ConfigOption = None, follow: FollowOption = False) -> None:
    """Show the raw output of a sandbox's payload, for as long as its machine exists."""
    asyncio.run(_follow_logs(load(config), sandbox_id, follow=follow))


async def _follow_events(settings: Settings, sandbox_id: str, show_event: ShowEvent, *, follow: bool) -> None:
    from app.cli.operator import operator

    path = f"/sandboxes/{sandbox_id}"
    async with operator(settings) as api:
        cursor: str | None = None
        while True:
            ended = (await api.get(path))["ended_at"] is not None
            page = await api.get(
                f"{path}/events", limit=200, cursor=cursor, wait=2 if follow and not ended else None
            )
            for event in page["items"]:
                show_event(event)
            cursor = page["next_cursor"]
            # Looked at before the page: an event that came between the two is in the page.
            if (cursor is None or (ended and not page["items"])) and (ended or not follow):
                return


async def _follow_logs(settings: Settings, sandbox_id: str, *, follow: bool) -> None:
    from app.cli.operator import operator
    from app.sandbox.select import make_sandboxes
    from app.web.sockets import gateway_dir

    async with operator(settings) as api:
        provider_name = (await api.get(f"/sandboxes/{sandbox_id}"))["provider_name"]
        home = settings.issuewright_home
        sandboxes = make_sandboxes(settings.provider, home, gateway_dir(home))
        offset = 0
        try:
            while True:
                ended = (await api.get(f"/sandboxes/{sandbox_id}"))["ended_at"] is not None
                piece = await sandboxes.fetch_log(provider_name, offset)
                offset += len(piece)
                sys.stdout.buffer.write(piece)
                sys.stdout.buffer.flush()
                if not piece and (ended or not follow):
                    return
                if not piece:
                    await asyncio.sleep(0.5)
        finally:
            await sandboxes.aclose()
