"""`issuewright demo`: the main job, end to end, on this machine."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Annotated

import typer


class SandboxChoice(StrEnum):
    BUBBLEWRAP = "bubblewrap"
    PROCESS = "process"
    DAYTONA = "daytona"


class LinkChoice(StrEnum):
    HTTP = "http"
    RELAY = "relay"


def demo(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object; progress goes to stderr.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave everything running to look at, until Ctrl-C.")
    ] = False,
    sandbox: Annotated[
        SandboxChoice,
        typer.Option(help="Where the agent works; process is not isolated, daytona is a simulated Daytona."),
    ] = SandboxChoice.BUBBLEWRAP,
    link: Annotated[
        LinkChoice | None,
        typer.Option(
            help="How daytona's sandboxes and the app talk; relay closes their network but for the model, and a worker "
            "carries what they say."
        ),
    ] = None,
) -> None:
    """Watch a labeled issue become a pull request. Nothing to sign up for.

    A simulated GitHub and a scripted model; all the rest is real: web, worker, Redis, SQLite, git over HTTP, an
    isolated sandbox, and the agent with its tools.
    """
    if link is not None and sandbox is not SandboxChoice.DAYTONA:
        raise typer.BadParameter(
            "only sandboxes on Daytona have a link: add --sandbox daytona", param_hint="--link"
        )
    from app.cli.demo.run import run_demo
    from app.cli.demo.stage import Place

    place = Place(sandbox.value, link.value if link is not None else None)
    code = asyncio.run(run_demo(place, as_json=as_json, keep=keep))
    if code:
        raise typer.Exit(code)
