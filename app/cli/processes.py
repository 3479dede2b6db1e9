"""`issuewright web` and `issuewright worker`: one process each, for several machines."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

from app.cli.options import ConfigOption, HostOption, PortOption, config_argument, load

if TYPE_CHECKING:
    from app.settings import Settings


def web(config: ConfigOption = None, host: HostOption = None, port: PortOption = None) -> None:
    """Run a web process.

    It takes webhooks in and serves the sandbox API, the model gateway and the operator API.
    """
    settings = load(config, host=host, port=port)
    redis_url = _prepare(settings, "web")

    from app.db.host import host_id
    from app.web.server import serve

    asyncio.run(serve(settings, redis_url, host_id(settings.issuewright_home)))


def worker(config: ConfigOption = None) -> None:
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
    os.execve(sys.executable, [sys.executable, "-P", "-m", "worker", *config_argument(config)], environment)  # noqa: S606


def _prepare(settings: Settings, process: str) -> str | None:
    """What both need before they start; the Redis to use. Raises SettingsError."""
    from app.db.migrate import require_current_schema
    from app.observability.logging import get_logger, start_logging
    from app.queue.embedded import find_running
    from app.settings import ensure_home, require_github

    require_github(settings)
    ensure_home(settings)
    asyncio.run(require_current_schema(settings.database))
    start_logging(process, settings)
    redis_url = settings.redis_url or find_running(settings.issuewright_home)
    if redis_url is None:
        get_logger().warning(
            "redis.missing",
            detail="REDIS_URL is not set and no embedded server runs: slower, on the sweep alone",
        )
    return redis_url
