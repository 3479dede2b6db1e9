"""Serving the simulated GitHub: as a process, or in a thread of a test."""

import argparse
import ctypes
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from simulators.github.control import Control
from simulators.github.simulator import GitHubSimulator

PR_SET_PDEATHSIG = 1  # linux/prctl.h
START_LIMIT_S = 10.0


def uvicorn_server(simulator: GitHubSimulator) -> uvicorn.Server:
    """A quiet server for the simulator's application."""
    # proxy_headers off: dropping a connection needs uvicorn's own `send`, unwrapped
    config = uvicorn.Config(
        simulator.app,
        interface="asgi3",
        proxy_headers=False,
        log_level="critical",
        access_log=False,
        date_header=False,  # the gateway sends the simulated clock's
        lifespan="on",
        timeout_graceful_shutdown=1,
        ws="none",
    )
    return uvicorn.Server(config)


def listen(host: str, port: int) -> socket.socket:
    """A listening socket (port 0: any free one)."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind((host, port))
    found.listen(256)
    return found


def url_of(listener: socket.socket) -> str:
    """Base URL of a listening socket."""
    host, port = listener.getsockname()[:2]
    return f"http://{host}:{port}"


@contextmanager
def running(directory: Path) -> Iterator[tuple[GitHubSimulator, Control]]:
    """A simulator in a thread of this process, with a control client; stopped at the end of the block."""
    listener = listen("127.0.0.1", 0)
    simulator = GitHubSimulator(directory, url_of(listener))
    server = uvicorn_server(simulator)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    deadline = time.monotonic() + START_LIMIT_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("the simulated GitHub did not start")
        time.sleep(0.005)
    try:
        with Control(simulator.base_url) as control:
            yield simulator, control
    finally:
        server.should_exit = True
        thread.join(timeout=START_LIMIT_S)
        listener.close()


def write_ready_file(path: Path, url: str) -> None:
    """Tells that the server listens: JSON with url, port, pid, in one atomic step."""
    port = int(url.rsplit(":", 1)[1])
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    scratch.write_text(json.dumps({"url": url, "port": port, "pid": os.getpid()}), encoding="utf-8")
    scratch.replace(path)


def die_with_parent() -> None:
    """Asks the kernel to end this process with its parent (Linux; elsewhere nothing happens)."""
    if sys.platform == "linux":
        parent = os.getppid()
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            sys.exit(0)


def main(argv: list[str]) -> int:
    """Serves until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m simulators github", description="A simulated GitHub.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--dir", type=Path, required=True, help="where the bare repositories are kept")
    parser.add_argument("--ready-file", type=Path, help="written (JSON: url, port, pid) once it listens")
    parser.add_argument("--parent-pid-watch", action="store_true", help="end when the parent process ends")
    options = parser.parse_args(argv)
    if options.parent_pid_watch:
        die_with_parent()
    listener = listen(options.host, options.port)
    simulator = GitHubSimulator(options.dir, url_of(listener))
    if options.ready_file:
        write_ready_file(options.ready_file, simulator.base_url)
    else:
        print(simulator.base_url, flush=True)
    uvicorn_server(simulator).run([listener])
    return 0
