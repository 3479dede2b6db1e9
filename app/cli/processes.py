"""`issuewright web` and `issuewright worker`: one process each, for several machines."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.options import ConfigOption, HostOption, PortOption, config_argument, load

if TYPE_CHECKING:
    from app.settings import Settings


def web(config: ConfigOption = None, host: HostOption = None, port: PortOption = None) -> None:
    """Run a web process.

    It takes webhooks in and serves the sandbox API, the model gateway and the operator API.
    """
    settings = load(config, host=host, port=port)
    redis_url = _prepare(settings, "web")

    from app.web.server import run_web

    run_web(settings, redis_url)


def worker(
    config: ConfigOption = None,
    own_sandboxes: Annotated[
        bool,
        typer.Option(
            "--own-sandboxes",
            help="When stopped, let this machine's sandboxes save their work first: where they end with it, as in a container.",
        ),
    ] = False,
) -> None:
    """Run a worker process.

    It works through what GitHub sent and moves specs forward, one step at a time.
    """
    settings = load(config)
    redis_url = _prepare(settings, "worker")

    from app.settings import child_environment

    environment = child_environment()
    if redis_url is not None:
        environment["REDIS_URL"] = redis_url
    sys.stdout.flush()
    # The worker takes this process's place: same pid, same signals, nothing in between.
    arguments = [*config_argument(config), *(["--own-sandboxes"] if own_sandboxes else [])]
    os.execve(sys.executable, [sys.executable, "-P", "-m", "worker", *arguments], environment)  # noqa: S606


def _prepare(settings: Settings, process: str) -> str | None:
    """What both need before they start; the Redis to use. Raises SettingsError."""
    from app.cli.preflight import require_app, require_free_port
    from app.db.host import host_id
    from app.db.schema import require_current_schema
    from app.settings import ensure_home, require_github

    # The web process never signs as the App, and is spared the library that reads the key.
    (require_app if process == "worker" else require_github)(settings)
    host_id(ensure_home(settings))
    asyncio.run(require_current_schema(settings.database))
    if process == "web":
        require_free_port(settings)

    # Only now: what is wrong so far is told without loading them.
    from app.db.reach import require_writable
    from app.observability.logging import get_logger, start_logging
    from app.queue.embedded import find_running
    from app.queue.reach import try_redis

    asyncio.run(require_writable(settings.database))
    start_logging(process, settings)
    redis_url = settings.redis_url or find_running(settings.issuewright_home)
    if redis_url is None:
        get_logger().warning(
            "redis.missing",
            detail="REDIS_URL is not set and no embedded server runs: slower, on the sweep alone",
        )
    elif problem := asyncio.run(try_redis(redis_url)):
        get_logger().warning(
            "redis.unusable", detail=f"slower, on the sweep alone, until it can be used: {problem}"
        )
    return redis_url
