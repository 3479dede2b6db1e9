"""`issuewright tasks …`."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.options import ConfigOption, JsonOption, LimitOption, load, require_id

app = typer.Typer(help="Items of the specs' plans.", no_args_is_help=True)

COLUMNS = ("id", "state", "repository", "issue", "spec_id", "key", "attempts", "updated_at", "title")


@app.command("list")
def list_(config: ConfigOption = None, as_json: JsonOption = False, limit: LimitOption = 50) -> None:
    """List tasks, newest first."""
    from app.cli.listing import show_list

    show_list(load(config), "tasks", COLUMNS, limit, as_json=as_json)


@app.command()
def show(
    task_id: Annotated[
        str,
        typer.Argument(metavar="ID", callback=require_id, help="The task's id, as `tasks list` shows it."),
    ],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one task and what its agent said at the end."""
    from app.cli.listing import show_one

    show_one(load(config), "task", task_id, as_json=as_json)
