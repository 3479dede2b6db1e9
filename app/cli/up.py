"""`issuewright up`: everything one machine needs, as supervised children."""

from __future__ import annotations

import asyncio
import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.options import ConfigOption, HostOption, PortOption, config_argument, load

if TYPE_CHECKING:
    from app.cli.supervisor import Part
    from app.settings import Settings

WORKER_GRACE_S = 25.0
"""It asks its sandboxes to wrap up and takes in their last checkpoints. All graces together stay below 40 s."""
WEB_GRACE_S = 6.0


def up(config: ConfigOption = None, host: HostOption = None, port: PortOption = None) -> None:
    """Run everything on this machine.

    Web, worker and, when REDIS_URL is unset, an embedded Redis; each is restarted when it dies. Ctrl-C stops it all: the agents
    save their work, then the processes end.
    """
    settings = load(config, host=host, port=port)

    from app.cli.preflight import require_app, require_free_port
    from app.db.host import host_id
    from app.observability.logging import start_logging
    from app.settings import ensure_home

    require_app(settings)
    home = ensure_home(settings)
    with only_one(home):
        require_free_port(settings)
        host_id(home)
        start_logging("up", settings)
        code = asyncio.run(_run(settings, config_argument(config)))
    if code:
        raise SystemExit(code)


async def _run(settings: Settings, config: list[str]) -> int:
    from app.cli.supervisor import Supervisor, on_stop_signals
    from app.observability.logging import get_logger
    from app.queue.embedded import EmbeddedRedis
    from app.settings import child_environment

    await _require_sandboxes(settings)
    await _prepare_database(settings.database)
    log = get_logger()
    environment = child_environment()
    parts: list[Part] = []
    if settings.redis_url is None:
        redis = EmbeddedRedis(settings.issuewright_home, environment)
        environment["REDIS_URL"] = redis.url
        parts.append(redis)
    parts += _processes(settings, environment, config)
    supervisor = Supervisor(parts)
    on_stop_signals(supervisor.ask_to_stop)
    try:
        await supervisor.start()
        log.info("up.started", url=settings.base_url, home=str(settings.issuewright_home))
        return await supervisor.run_until_asked()
    finally:
        await supervisor.stop()
        log.info("up.stopped")


async def _prepare_database(url: str) -> None:
    """At the newest schema, and can be written; as `migrate` and `require_writable` raise."""
    from app.db.reach import require_writable
    from app.db.schema import ask_state
    from app.observability.logging import get_logger

    if await ask_state(url) != "current":
        from app.db.migrate import migrate  # a second to load, which most starts are spared

        for revision in await migrate(url):
            get_logger().info("database.migrated", revision=revision)
    await require_writable(url)


def _processes(settings: Settings, environment: dict[str, str], config: list[str]) -> list[Part]:
    from app.cli.supervisor import ChildPart
    from app.queue.child import Command

    python = [sys.executable, "-P", "-m"]
    listen = ["--host", settings.host, "--port", str(settings.port)]
    web = Command("web", [*python, "app.web", *config, *listen], environment, grace_s=WEB_GRACE_S)
    worker = Command(
        "worker", [*python, "worker", *config, "--own-sandboxes"], environment, grace_s=WORKER_GRACE_S
    )
    return [ChildPart(web), ChildPart(worker)]


async def _require_sandboxes(settings: Settings) -> None:
    """Raises SettingsError when sandboxes can't be made here. Never falls back to something less safe by itself."""
    from app.domain.errors import RetryAt, SettingsError
    from app.sandbox.select import make_sandboxes
    from app.web.sockets import gateway_dir

    home = settings.issuewright_home
    sandboxes = make_sandboxes(settings.provider, home, gateway_dir(home), settings)
    try:
        probe = await sandboxes.probe()
    except RetryAt as later:
        # Sandboxes elsewhere may be away for a while; what GitHub sends must be taken in meanwhile.
        print(f"issuewright: sandboxes can't be made just now, work will wait: {later}", file=sys.stderr)
        return
    finally:
        await sandboxes.aclose()
    if not probe.ok:
        raise SettingsError(f"SANDBOX_PROVIDER: {settings.provider} does not work here: {probe.detail}")


@contextmanager
def only_one(home: Path) -> Iterator[None]:
    """Holds ISSUEWRIGHT_HOME. The lock is the kernel's: a killed owner leaves none, whatever pid the file still names.

    Raises SettingsError naming the owner when another one runs, or the file when it can't be a lock.
    """
    from app.domain.errors import SettingsError

    path = home / "up.lock"
    try:
        # Not blocking: what lies there may be a pipe.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise SettingsError(_no_lock(path, error)) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
        except BlockingIOError:
            owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            raise SettingsError(
                f"ISSUEWRIGHT_HOME: {home} is in use by another `issuewright up` (pid {owner}); stop it, or set another home"
            ) from None
        except OSError as error:
            raise SettingsError(_no_lock(path, error)) from None
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _no_lock(path: Path, error: OSError) -> str:
    return f"ISSUEWRIGHT_HOME: {path} can't be locked ({error.strerror}); remove it, or name a directory of your own"
