"""`python -m simulators model`: the scripted model as a process of its own."""

import argparse
import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import uvicorn

from simulators.model.simulator import DEFAULT_SCENARIO, ModelSimulator

PARENT_CHECK_S = 0.5


def main(argv: list[str]) -> int:
    """Serve until SIGTERM or SIGINT (or until the parent is gone); 2 on bad usage, 1 when it can't listen."""
    options = _parser().parse_args(argv)
    try:
        simulator = ModelSimulator(options.api_key, options.default)
    except ValueError as error:
        print(f"simulators model: {error}", file=sys.stderr)
        return 2
    try:
        listening = _listen(options.host, options.port)
    except OSError as error:
        print(f"simulators model: cannot listen on {options.host}:{options.port}: {error}", file=sys.stderr)
        return 1
    parent = os.getppid() if options.parent_pid_watch else None
    with contextlib.closing(listening):
        asyncio.run(_serve(simulator, listening, options.ready_file, parent))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="simulators model", description="A scripted Messages API.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--ready-file", type=Path, help="written with url, port and pid once listening")
    parser.add_argument("--api-key", required=True, help="the only key accepted")
    parser.add_argument("--default", default=DEFAULT_SCENARIO, help="scenario when none is named")
    parser.add_argument("--parent-pid-watch", action="store_true", help="end when the parent process ends")
    return parser


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=128)


@contextlib.asynccontextmanager
async def serving(simulator: ModelSimulator) -> AsyncIterator[str]:
    """Serve on a free loopback port from within this process; yields the base URL."""
    with contextlib.closing(_listen("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(_config(simulator))
        task = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            # The socket listens already: who connects before the server accepts simply waits.
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


def _config(simulator: ModelSimulator) -> uvicorn.Config:
    return uvicorn.Config(
        simulator.app,
        log_level="critical",  # an answer that is cut on purpose is no error worth a traceback
        access_log=False,
        timeout_graceful_shutdown=1,  # whoever waits at a gate is dropped
        lifespan="off",
        ws="none",
    )


async def _serve(
    simulator: ModelSimulator, listening: socket.socket, ready_file: Path | None, parent: int | None
) -> None:
    server = _Server(_config(simulator), ready_file)
    watch = asyncio.create_task(_watch_parent(server, parent)) if parent is not None else None
    try:
        await server.serve(sockets=[listening])
    finally:
        if watch is not None:
            watch.cancel()


class _Server(uvicorn.Server):
    """A server that says when it can be reached."""

    def __init__(self, config: uvicorn.Config, ready_file: Path | None) -> None:
        super().__init__(config)
        self._ready_file = ready_file

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if sockets and self._ready_file:
            host, port = sockets[0].getsockname()[:2]
            _write_ready(self._ready_file, host, port)


def _write_ready(path: Path, host: str, port: int) -> None:
    """Put the address where the starter looks for it; a reader never sees half a file."""
    shown = f"[{host}]" if ":" in host else host
    ready = {"url": f"http://{shown}:{port}", "port": port, "pid": os.getpid()}
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text(json.dumps(ready), encoding="utf-8")
    partial.replace(path)


async def _watch_parent(server: uvicorn.Server, parent: int) -> None:
    while os.getppid() == parent:  # noqa: ASYNC110 (the end of a process sets no event)
        await asyncio.sleep(PARENT_CHECK_S)
    server.should_exit = True
