"""``python -m simulators daytona``: the simulated Daytona as a process, or in a thread of a test."""

import argparse
import asyncio
import json
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import uvicorn

from simulators.daytona.simulator import DaytonaSimulator
from simulators.daytona.world import Snapshot

PARENT_CHECK_S = 0.5
START_LIMIT_S = 10.0
SNAPSHOT = "ai-agent-dev-light"


def main(argv: list[str]) -> int:
    """Serves until SIGTERM or SIGINT (or until the parent is gone); 1 when it can't listen."""
    options = _parser().parse_args(argv)
    try:
        listening = socket.create_server((options.host, options.port), backlog=128)
    except OSError as error:
        print(f"simulators daytona: cannot listen on {options.host}:{options.port}: {error}", file=sys.stderr)
        return 1
    with closing(listening), tempfile.TemporaryDirectory(prefix="simulated-daytona-") as scratch:
        directory = options.dir or Path(scratch)
        simulator = make(directory, listening, options.api_key, options.image_version)
        if simulator.world.isolation != "bubblewrap":
            print("simulators daytona: no bubblewrap here: machines are plain processes", file=sys.stderr)
        parent = os.getppid() if options.parent_pid_watch else None
        asyncio.run(_serve(simulator, listening, options.ready_file, parent))
    return 0


def make(
    directory: Path, listening: socket.socket, api_key: str, image_version: str = ""
) -> DaytonaSimulator:
    """A simulator for a listening socket, with the one snapshot that Issuewright asks for by default."""
    host, port = listening.getsockname()[:2]
    simulator = DaytonaSimulator(directory, f"http://{host}:{port}", api_key, image_version)
    simulator.world.snapshots[SNAPSHOT] = Snapshot(SNAPSHOT)
    return simulator


@contextmanager
def running(directory: Path, api_key: str, image_version: str = "") -> Iterator[DaytonaSimulator]:
    """In a thread of this process; every machine is gone at the end of the block."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=128)) as listening:
        simulator = make(directory, listening, api_key, image_version)
        server = uvicorn.Server(_config(simulator))

        async def serve() -> None:
            async with simulator.running():
                await server.serve(sockets=[listening])

        thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
        thread.start()
        deadline = time.monotonic() + START_LIMIT_S
        while not server.started:
            if not thread.is_alive() or time.monotonic() > deadline:
                raise RuntimeError("the simulated Daytona did not start")
            time.sleep(0.005)
        try:
            yield simulator
        finally:
            server.should_exit = True
            thread.join(timeout=START_LIMIT_S)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="simulators daytona", description="A simulated Daytona.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument(
        "--dir", type=Path, help="where machines keep their files; a temporary one by default"
    )
    parser.add_argument("--ready-file", type=Path, help="written with url, port and pid once listening")
    parser.add_argument("--api-key", required=True, help="the only key accepted")
    parser.add_argument("--image-version", default="", help="what machines say they were built from")
    parser.add_argument("--parent-pid-watch", action="store_true", help="end when the parent process ends")
    return parser


def _config(simulator: DaytonaSimulator) -> uvicorn.Config:
    return uvicorn.Config(
        simulator.app,
        interface="asgi3",
        proxy_headers=False,  # dropping a connection needs uvicorn's own `send`
        log_level="critical",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
        ws="websockets-sansio",
    )


async def _serve(
    simulator: DaytonaSimulator, listening: socket.socket, ready_file: Path | None, parent: int | None
) -> None:
    server = uvicorn.Server(_config(simulator))
    watch = asyncio.create_task(_watch_parent(server, parent)) if parent is not None else None
    async with simulator.running():
        # The socket listens already: who connects before the server accepts simply waits.
        if ready_file is not None:
            _write_ready(ready_file, simulator.world.base_url)
        else:
            print(simulator.world.base_url, flush=True)
        await server.serve(sockets=[listening])
    if watch is not None:
        watch.cancel()


def _write_ready(path: Path, url: str) -> None:
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    port = int(url.rsplit(":", 1)[1])
    partial.write_text(json.dumps({"url": url, "port": port, "pid": os.getpid()}), encoding="utf-8")
    partial.replace(path)


async def _watch_parent(server: uvicorn.Server, parent: int) -> None:
    while os.getppid() == parent:  # noqa: ASYNC110 (the end of a process sets no event)
        await asyncio.sleep(PARENT_CHECK_S)
    server.should_exit = True
