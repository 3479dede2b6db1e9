"""A server under measurement: a process of its own on a free port of this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

START_S = 30.0
SECRET = "bench-webhook-secret"


def app_environment(home: Path) -> dict[str, str]:
    """Settings of a web process with a made-up App, and nothing of this machine's own."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "ISSUEWRIGHT_HOME": str(home / "state"),
        "GITHUB_APP_ID": "1",
        "GITHUB_APP_PRIVATE_KEY": key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        ).decode(),
        "GITHUB_WEBHOOK_SECRET": SECRET,
        "LOG_FORMAT": "json",
    }


@contextmanager
def running(module: Sequence[str], environment: Mapping[str, str], log: IO[bytes]) -> Iterator[int]:
    """`python -m MODULE… --port PORT`, what it says goes to `log`; yields the port once it answers, ends the process
    afterwards.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    process = subprocess.Popen(
        [sys.executable, "-m", *module, "--port", str(port)], env=dict(environment), stdout=log, stderr=log
    )
    try:
        _wait_for(port, process)
        yield port
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError(f"the server on port {port} did not start") from None
            time.sleep(0.05)
