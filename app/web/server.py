"""The web process: the public app on HOST:PORT, the sandboxes' app on `gateway.sock`, the proxy on `proxy.sock`."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from sqlalchemy.exc import SQLAlchemyError

from app import __version__
from app.db.host import host_id
from app.db.processes import record_beat
from app.observability.crashpoints import arm
from app.observability.logging import get_logger
from app.settings import Settings, ensure_home
from app.web.composition import build_parts, close, create_app, create_sandbox_app
from app.web.connect_proxy import ConnectProxy
from app.web.parts import Parts
from app.web.sockets import GATEWAY_SOCKET, PROXY_SOCKET, bind_tcp, bind_unix, clear_stale, gateway_dir

log = get_logger()

BEAT_S = 10.0
STOP_S = 3
"""For requests still running when the process is asked to stop."""
MAX_CONNECTIONS = 1_000
"""uvicorn bounds neither headers nor idle connections by time (measured), so they are bounded by number."""


class _Server(uvicorn.Server):
    """Two of them share a loop, so signals are ours to catch."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        finally:
            self.up.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _server(app: FastAPI) -> _Server:
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=STOP_S,
        ws="none",
    )
    return _Server(config)


def event_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Uvloop where there is one (uvicorn brings it): it halves the cost of a request. None: the standard loop."""
    return uvicorn.Config("", loop="auto", log_config=None).get_loop_factory()


def run_web(settings: Settings, redis_url: str | None) -> None:
    """A whole web process, from here to its end. Raises SettingsError when a port or socket is taken."""
    arm(settings.crash_points, settings.issuewright_home)
    # The database's threads let go of the interpreter at every turn, and a busy event loop gives it back only after
    # this time: at the default of 5 ms deliveries are stored three times slower (measured: docs/benchmarks.md).
    sys.setswitchinterval(0.0005)
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        runner.run(serve(settings, redis_url, host_id(settings.issuewright_home)))


async def serve(
    settings: Settings, redis_url: str | None, host_id: str, on_ready: Callable[[int], None] | None = None
) -> None:
    """Runs until SIGTERM or SIGINT, then stops within 5 s: waiting polls answer at once, running requests get 3 s.

    `redis_url` None: without Redis. `on_ready` is told the port (PORT may be 0). Raises SettingsError when a port or
    socket is taken.
    """
    ensure_home(settings)
    directory = gateway_dir(settings.issuewright_home)
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(bind_tcp(settings.host, settings.port))
        gateway = stack.enter_context(bind_unix(directory / GATEWAY_SOCKET))
        stack.callback(_unlink, directory / GATEWAY_SOCKET)
        clear_stale(directory / PROXY_SOCKET)
        parts = build_parts(settings, redis_url)
        stack.callback(log.info, "web.stopped")
        stack.push_async_callback(close, parts)
        proxy = ConnectProxy(settings.allow_hosts, parts.metrics)
        await proxy.start(directory / PROXY_SOCKET)
        stack.callback(_unlink, directory / PROXY_SOCKET)
        stack.push_async_callback(proxy.aclose)
        await stack.enter_async_context(_beating(parts, host_id))
        port: int = listener.getsockname()[1]
        await _run(parts, listener, gateway, lambda: _announce(settings.host, port, on_ready))


def _announce(host: str, port: int, on_ready: Callable[[int], None] | None) -> None:
    log.info("web.listening", host=host, port=port)
    if on_ready is not None:
        on_ready(port)


async def _run(
    parts: Parts, listener: socket.socket, gateway: socket.socket, ready: Callable[[], None]
) -> None:
    public = _server(create_app(parts.settings, parts))
    inner = _server(create_sandbox_app(parts))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    running = [
        asyncio.create_task(public.serve(sockets=[listener]), name="public"),
        asyncio.create_task(inner.serve(sockets=[gateway]), name="gateway"),
    ]
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.gather(public.up.wait(), inner.up.wait())
        ready()
        # A server that ends by itself takes the process with it; its supervisor starts it anew.
        await asyncio.wait({stopping, *running}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        parts.closing.set()
        public.should_exit = inner.should_exit = True
        stopping.cancel()
        await asyncio.gather(*running)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


@asynccontextmanager
async def _beating(parts: Parts, host_id: str) -> AsyncIterator[None]:
    task = asyncio.create_task(_beat(parts, host_id), name="beat")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _beat(parts: Parts, host_id: str) -> None:
    """A row in the database says that this process lives."""
    process_id = f"web-{secrets.token_hex(8)}"
    while True:
        try:
            async with parts.database.write() as session:
                await record_beat(
                    session, process_id, "web", host_id, os.getpid(), __version__, parts.clock()
                )
        except (SQLAlchemyError, OSError) as error:
            log.warning("web.beat_missed", error=type(error).__name__)
        await asyncio.sleep(BEAT_S)


def _unlink(path: Path) -> None:
    path.unlink(missing_ok=True)
