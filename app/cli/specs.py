"""`issuewright specs …`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.options import ConfigOption, JsonOption, LimitOption, load, require_id

if TYPE_CHECKING:
    from app.settings import Settings

app = typer.Typer(help="Labeled issues on their way to merged pull requests.", no_args_is_help=True)

SpecId = Annotated[
    str,
    typer.Argument(metavar="ID", callback=require_id, help="The spec's id, as `specs list` shows it."),
]
COLUMNS = ("id", "state", "outcome", "repository", "issue", "pull_request", "updated_at", "title")


@app.command("list")
def list_(config: ConfigOption = None, as_json: JsonOption = False, limit: LimitOption = 50) -> None:
    """List specs, newest first."""
    from app.cli.listing import show_list

    show_list(load(config), "specs", COLUMNS, limit, as_json=as_json)


@app.command()
def show(spec_id: SpecId, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Show one spec: its tasks, sandboxes, branch, checks and outcome."""
    from app.cli.listing import show_one

    show_one(load(config), "spec", spec_id, as_json=as_json)


@app.command()
def bundle(
    spec_id: SpecId,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write here instead of ID.bundle; - is stdout."),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Save what the agent handed over, as a git bundle.

    The newest result, else the newest checkpoint. Look into it with `git fetch FILE 'refs/*:refs/issuewright/*'` in a
    clone of the repository.
    """
    if str(output) == "-":
        asyncio.run(_print(load(config), spec_id))
        return
    target = output if output is not None else Path(f"{spec_id}.bundle")
    if not target.name or target.is_dir() or not target.absolute().parent.is_dir():
        raise typer.BadParameter(f"{target}: not a file in a directory that is there", param_hint="--output")
    asyncio.run(_save(load(config), spec_id, target))
    print(f"{target}: {target.stat().st_size} bytes")


async def _save(settings: Settings, spec_id: str, target: Path) -> None:
    from app.cli.operator import operator

    unfinished = target.with_name(f"{target.name}.part")
    try:
        async with operator(settings) as api:
            with unfinished.open("wb") as file:
                async for piece in api.stream(f"/specs/{spec_id}/bundle"):
                    file.write(piece)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)


async def _print(settings: Settings, spec_id: str) -> None:
    from app.cli.operator import operator

    async with operator(settings) as api:
        async for piece in api.stream(f"/specs/{spec_id}/bundle"):
            sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
