"""Logging: one line per fact, `noun.verb_past` with fixed keys, no secrets, no bodies.

Use `get_logger()` and name things with the fixed keys only::

    log = get_logger()
    with bound(spec_id=spec.id, delivery_id=delivery.id):
        log.info("spec.claimed", fence=7)
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, Literal, TextIO

import structlog
from structlog.contextvars import bind_contextvars, merge_contextvars, reset_contextvars

from app.observability.redaction import redact, redact_value, register_secret
from app.settings import Settings

FIXED_KEYS = ("delivery_id", "installation_id", "repo_id", "issue", "spec_id", "task_id", "sandbox_id")
"""How a thing is named in every line that is about it, in this order on a console."""

# Libraries that would otherwise say one line per request, or repeat what our own lines say.
_QUIET = {
    "httpx": logging.WARNING,
    "httpcore": logging.WARNING,
    "hishel": logging.WARNING,
    "uvicorn.access": logging.WARNING,
    "uvicorn.error": logging.WARNING,
    "arq": logging.WARNING,
    "asyncio": logging.WARNING,
    "alembic": logging.WARNING,
    "sqlalchemy": logging.WARNING,
    "aiosqlite": logging.WARNING,
    "markdown_it": logging.WARNING,
}

LogFormat = Literal["console", "json"]
Processors = list[structlog.typing.Processor]


def configure_logging(
    process: str, log_format: LogFormat | None = None, level: str = "info", stream: TextIO | None = None
) -> None:
    """Once per process, at its start. `process` (web, worker, up …) is in every line; `log_format` None means console
    on a terminal, JSON otherwise. The standard library's loggers end up in the same form. Safe to call twice.
    """
    out = stream or sys.stderr
    chosen = log_format or ("console" if out.isatty() else "json")
    shared: Processors = [
        merge_contextvars,
        structlog.stdlib.add_log_level,
        # People at a terminal read local time of day; machines sort by full UTC times.
        structlog.processors.TimeStamper(fmt="iso")
        if chosen == "json"
        else structlog.processors.TimeStamper("%H:%M:%S", utc=False),
        _name_process(process),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    output = logging.StreamHandler(out)
    output.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, _name_library],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.StackInfoRenderer(),
                structlog.processors.format_exc_info,
                _redact_all,
                *_renderers(chosen, colors=out.isatty()),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [output]
    root.setLevel(level.upper())
    for name, floor in _QUIET.items():
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
        library.setLevel(max(floor, logging.getLevelName(level.upper())))
    logging.captureWarnings(capture=True)


def start_logging(process: str, settings: Settings) -> None:
    """`configure_logging` as the settings say, and every secret in them is masked from now on."""
    for value in (
        settings.api_token,
        settings.anthropic_api_key,
        settings.daytona_api_key,
    ):
        register_secret(value.get_secret_value() if value else None)
    register_secret(*(secret.decode() for secret in settings.webhook_secrets))
    if settings.credentials_key is not None:
        register_secret(*settings.credentials_key.get_secret_value().split(","))
    configure_logging(process, settings.log_format, settings.log_level)


def get_logger() -> Any:
    """A logger that can be made at import time; it takes on the configuration when it is first used."""
    return structlog.get_logger("issuewright")


@contextmanager
def bound(**keys: Any) -> Iterator[None]:
    """Name what the lines inside are about; undone at the end, whatever happens. `None` values are left out."""
    tokens = bind_contextvars(**{key: value for key, value in keys.items() if value is not None})
    try:
        yield
    finally:
        reset_contextvars(**tokens)


# ------------------------------------------------------------ processors


def _name_process(process: str) -> structlog.typing.Processor:
    def add(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event.setdefault("process", process)
        return event

    return add


def _name_library(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    record = event.get("_record")
    if record is not None:
        event["library"] = record.name
    return event


def _redact_all(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    return {
        name: redact(str(value)) if name == "event" else redact_value(name, value)
        for name, value in event.items()
    }


def _renderers(log_format: LogFormat, *, colors: bool) -> Processors:
    if log_format == "json":
        return [_order_keys, structlog.processors.JSONRenderer(ensure_ascii=False)]
    return [_order_keys, structlog.dev.ConsoleRenderer(colors=colors, sort_keys=False, pad_event_to=28)]


def _order_keys(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    order = ("timestamp", "level", "process", "event", *FIXED_KEYS)
    first = {key: event[key] for key in order if key in event}
    return {**first, **event}
