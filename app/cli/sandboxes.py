"""`issuewright sandboxes …`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.options import ConfigOption, JsonOption, LimitOption, load, require_id

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from app.settings import Settings

    ShowEvent = Callable[[dict[str, Any]], None]

app = typer.Typer(help="Isolated machines, each running one agent.", no_args_is_help=True)

SandboxId = Annotated[
    str,
    typer.Argument(metavar="ID", callback=require_id, help="The sandbox's id, as `sandboxes list` shows it."),
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
    """Show one sandbox: its agent's activity, cost and end; what supervision saw of it, and what was done."""
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
            settings,
            sandbox_id,
            lambda one: print_event(one, as_json=as_json, diff=diff),
            follow=follow,
            full=diff,
        )
    )


@app.command()
def logs(
    sandbox_id: SandboxId,
    config: ConfigOption = None,
    follow: FollowOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the output of a sandbox's payload, without terminal sequences.

    Of one whose machine is gone, the end that was kept when it was lost.
    """
    from app.cli.sandbox_logs import show_log

    asyncio.run(show_log(load(config), sandbox_id, follow=follow, as_json=as_json))


@app.command()
def compare(
    left: Annotated[str, typer.Argument(metavar="A", callback=require_id, help="A sandbox's id.")],
    right: Annotated[str, typer.Argument(metavar="B", callback=require_id, help="Another one's.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two sandboxes: phases, time, cost, turns, files, tests."""
    from app.cli.sandbox_compare import side_by_side
    from app.cli.show import show_json, show_rows

    summaries = asyncio.run(_summaries(load(config), left, right))
    if as_json:
        show_json({"items": summaries, "next_cursor": None})
    else:
        rows = side_by_side(summaries[0], summaries[1])
        show_rows(("measure", left, right), rows, nothing="nothing to compare")


@app.command()
def cleanup(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take down what crashed runs left: machines of this Issuewright that nobody needs, and rows without a machine.

    A worker does so by itself; this is for when none runs, or to see. What lives is left alone, as is everybody else's.
    """
    from app.cli.sandbox_cleanup import clean_up
    from app.cli.show import show_json, show_rows
    from app.domain.errors import IssuewrightError

    rows = asyncio.run(clean_up(load(config), dry_run=dry_run))
    if as_json:
        show_json({"items": rows, "next_cursor": None})
    else:
        show_rows(("kind", "name", "sandbox_id", "why", "done"), rows, nothing="nothing is left over")
    failed = sum(row["done"].startswith("failed") for row in rows)
    if failed:
        raise IssuewrightError(f"{failed} of {len(rows)} could not be taken down; run this again")


async def _summaries(settings: Settings, *sandbox_ids: str) -> list[dict[str, Any]]:
    from app.cli.operator import operator
    from app.cli.sandbox_compare import fetch_summary

    async with operator(settings) as api:
        return [await fetch_summary(api, one) for one in sandbox_ids]


@app.command("build-image")
def build_image(
    config: ConfigOption = None,
    print_only: Annotated[
        bool,
        typer.Option("--print", help="Print it as a Dockerfile for a registry of your own; build nothing."),
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Remove the snapshot first, if it is there.")
    ] = False,
) -> None:
    """Make the Daytona snapshot that sandboxes start from, named SANDBOX_SNAPSHOT and of the size in the settings."""
    if print_only:
        from app.sandbox.image import render_dockerfile

        print(render_dockerfile(), end="")
        return
    asyncio.run(_build_image(load(config), replace=replace))


async def _build_image(settings: Settings, *, replace: bool) -> None:
    from app.sandbox.daytona_account import Size, daytona_account
    from app.sandbox.daytona_client import DaytonaClient
    from app.sandbox.daytona_image import ensure_snapshot
    from app.sandbox.image import IMAGE_VERSION

    name = settings.sandbox_snapshot
    size = Size(settings.sandbox_memory_gb, settings.sandbox_cpu, settings.sandbox_disk_gb)
    client = DaytonaClient(daytona_account(settings))
    try:
        state = await ensure_snapshot(client, name, size, print, replace=replace)
    finally:
        await client.aclose()
    print(f"snapshot {name} is {state} (this program's recipe: version {IMAGE_VERSION}, {size})")


async def _follow_events(
    settings: Settings, sandbox_id: str, show_event: ShowEvent, *, follow: bool, full: bool
) -> None:
    from app.cli.event_lines import supervision_events
    from app.cli.operator import operator

    path = f"/sandboxes/{sandbox_id}"
    async with operator(settings) as api:
        cursor: str | None = None
        while True:
            view = await api.get(path)
            ended = view["ended_at"] is not None
            page = await api.get(
                f"{path}/events", limit=200, cursor=cursor, wait=2 if follow and not ended else None,
                full=full or None,
            )  # fmt: skip
            for event in page["items"]:
                show_event(event)
            cursor = page["next_cursor"]
            # Looked at before the page: an event that came between the two is in the page.
            if (cursor is None or (ended and not page["items"])) and (ended or not follow):
                for event in supervision_events(view):
                    show_event(event)
                return
