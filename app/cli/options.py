"""Options that several commands share, and the settings that result from them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from app.settings import Settings

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="Read settings from this YAML file instead of issuewright.yaml."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, as the operator API answers.")]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="Show at most this many.")]
HostOption = Annotated[str | None, typer.Option("--host", help="Address to listen on (HOST).")]
PortOption = Annotated[int | None, typer.Option("--port", min=0, max=65535, help="Port to listen on (PORT).")]


_ID = re.compile(r"[a-z]+_[A-Za-z0-9_-]{1,60}")


def require_id(value: str) -> str:
    """As it was given. Raises BadParameter for what can be nobody's id: within an address it would lead elsewhere."""
    if not _ID.fullmatch(value):
        raise typer.BadParameter(f"{value[:60]!r} is no id; `list` shows them")
    return value


class Chosen:
    """What was said before the command's name, and whether tracebacks are wanted."""

    config: Path | None = None
    debug: bool = False


def load(config: Path | None, **overrides: Any) -> Settings:
    """The checked settings of this run. Raises SettingsError."""
    from app.settings import load_settings

    settings = load_settings(config or Chosen.config, **overrides)
    Chosen.debug = settings.log_level == "debug"
    return settings


def config_argument(config: Path | None) -> list[str]:
    """The same choice for a child process."""
    path = config or Chosen.config
    return [] if path is None else ["--config", str(path.absolute())]
