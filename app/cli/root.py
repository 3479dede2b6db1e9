"""`issuewright` itself: the commands put together, and the one place that turns errors into words and exit codes."""

from __future__ import annotations

import sys
import traceback
from typing import Annotated

import typer

from app import __version__
from app.cli import (
    credentials,
    database,
    deliveries,
    demo,
    doctor,
    messages,
    processes,
    register,
    sandboxes,
    specs,
    tasks,
    up,
)
from app.cli.options import Chosen, ConfigOption
from app.domain.errors import IssuewrightError, SettingsError

app = typer.Typer(
    name="issuewright",
    help="Labeled GitHub issues become pull requests, with an agent that people can talk to on GitHub.",
    epilog="Settings come from the environment, .env, issuewright.yaml (or --config FILE) and defaults.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"issuewright {__version__}")
        raise typer.Exit


@app.callback()
def root(
    config: ConfigOption = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version
    Chosen.config = config


app.command("demo")(demo.demo)
app.command("up")(up.up)
app.command("web")(processes.web)
app.command("worker")(processes.worker)
app.command("migrate")(database.migrate)
app.command("register")(register.register)
app.command("doctor")(doctor.doctor)
app.add_typer(specs.app, name="specs")
app.add_typer(tasks.app, name="tasks")
app.add_typer(sandboxes.app, name="sandboxes")
app.add_typer(messages.app, name="messages")
app.add_typer(deliveries.app, name="deliveries")
app.add_typer(credentials.app, name="credentials")


def run() -> int:
    """Runs the command in sys.argv. Never raises, except SystemExit for usage errors (2)."""
    try:
        app()
    except SettingsError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return 2
    except IssuewrightError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return 130
    except Exception as error:  # noqa: BLE001 - the process boundary: people get a line, not a traceback
        first = (str(error).strip() or "no details").splitlines()[0]
        return _fail(f"{type(error).__name__}: {first}")
    return 0


def _fail(message: str) -> int:
    from app.observability.redaction import redact

    if Chosen.debug:
        print(redact(traceback.format_exc()), file=sys.stderr)
    print(f"issuewright: {redact(message)}", file=sys.stderr)
    return 1
