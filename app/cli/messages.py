"""`issuewright messages …`."""

from __future__ import annotations

import asyncio
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.options import ConfigOption, load, require_id

if TYPE_CHECKING:
    from app.settings import Settings

app = typer.Typer(help="Words to running agents.", no_args_is_help=True)

MAX_CHARS = 65_536
"""As long as a comment on GitHub may be. What the operator API takes."""


class Kind(StrEnum):
    """The message types of the operator API; named here, since what names them there takes long to load."""

    USER_MESSAGE = "user_message"
    INTERRUPT = "interrupt"
    GUARDIAN_NUDGE = "guardian_nudge"
    SYSTEM = "system"


@app.callback()
def messages() -> None:
    """Words to running agents."""


@app.command()
def send(
    sandbox_id: Annotated[
        str,
        typer.Argument(
            metavar="ID", callback=require_id, help="The sandbox's id, as `sandboxes list` shows it."
        ),
    ],
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="What to say. Left out: it is read from standard input."),
    ] = None,
    kind: Annotated[
        Kind, typer.Option("--type", help="How it is said; `interrupt` stops the tool that runs.")
    ] = Kind.USER_MESSAGE,
    config: ConfigOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the receipt as JSON, as the operator API answers.")
    ] = False,
) -> None:
    """Say something to the agent in a sandbox. It takes it in as it takes in a comment on GitHub.

    Each call sends one more message.
    """
    from app.cli.show import show_json

    settings = load(config)
    content = _checked(_read_text() if text is None else text)
    receipt = asyncio.run(_send(settings, sandbox_id, {"content": content, "message_type": kind.value}))
    if as_json:
        show_json(receipt)
    else:
        print(f"message {receipt['seq']} to {sandbox_id} is {receipt['state']} ({receipt['id']})")


async def _send(settings: Settings, sandbox_id: str, ask: dict[str, str]) -> Any:
    from app.cli.operator import operator

    async with operator(settings) as api:
        return await api.post(f"/sandboxes/{sandbox_id}/messages", ask)


def _read_text() -> str:
    """Standard input without its last line's end. Raises BadParameter when it is no text."""
    data = sys.stdin.buffer.read(4 * MAX_CHARS + 1)
    try:
        return data.decode().removesuffix("\n")
    except UnicodeDecodeError:
        raise typer.BadParameter("the text is not UTF-8, or too long") from None


def _checked(text: str) -> str:
    if not text.strip():
        raise typer.BadParameter("there is no text to send")
    if len(text) > MAX_CHARS:
        raise typer.BadParameter(f"the text has {len(text)} characters; at most {MAX_CHARS} can be sent")
    try:
        text.encode()
    except UnicodeEncodeError:  # an argument with bytes that are no UTF-8
        raise typer.BadParameter("the text is not UTF-8") from None
    return text
