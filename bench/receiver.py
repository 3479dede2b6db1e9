"""Durable webhook receipts per second of one web process, against an endpoint that only checks the HMAC."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

SECRET = "bench-webhook-secret"
CONNECTIONS = 32
REQUESTS = 3000
BODY = json.dumps({"action": "labeled", "filler": "x" * 12_000}, separators=(",", ":")).encode()
_SIGNATURE = hmac.new(SECRET.encode(), BODY, hashlib.sha256).hexdigest()


def measure() -> dict[str, float]:
    """Receipts per second of both, and their ratio (1 = storing costs nothing)."""
    with tempfile.TemporaryDirectory(prefix="iw-bench-") as home:
        environment = _environment(Path(home))
        subprocess.run([sys.executable, "-m", "app", "migrate"], env=environment, check=True)
        with _server(
            ["uvicorn", "bench.bare:app", "--log-level", "warning", "--no-access-log"], environment
        ) as port:
            bare = asyncio.run(_drive(port))
        with _server(["app", "web"], environment) as port:
            durable = asyncio.run(_drive(port))
    return {"bare_per_s": round(bare), "durable_per_s": round(durable), "ratio": round(durable / bare, 2)}


def _environment(home: Path) -> dict[str, str]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "ISSUEWRIGHT_HOME": str(home / "state"),
        "GITHUB_APP_ID": "1",
        "GITHUB_APP_PRIVATE_KEY": pem,
        "GITHUB_WEBHOOK_SECRET": SECRET,
        "LOG_LEVEL": "error",
    }


@contextmanager
def _server(module: list[str], environment: dict[str, str]) -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    process = subprocess.Popen([sys.executable, "-m", *module, "--port", str(port)], env=environment)
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > deadline or process.poll() is not None:
                    raise
                time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait(timeout=20)


async def _drive(port: int) -> float:
    """REQUESTS posts over CONNECTIONS kept-open connections; how many a second were answered with 202."""
    left = iter(range(REQUESTS))
    started = time.perf_counter()
    await asyncio.gather(*(_client(port, left) for _ in range(CONNECTIONS)))
    return REQUESTS / (time.perf_counter() - started)


async def _client(port: int, left: Iterator[int]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in left:
        head = (
            f"POST /webhooks/github HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(BODY)}\r\nX-GitHub-Event: issues\r\nX-GitHub-Delivery: {uuid.uuid4()}\r\n"
            f"X-Hub-Signature-256: sha256={_SIGNATURE}\r\n\r\n"
        )
        writer.write(head.encode() + BODY)
        answer = await reader.readuntil(b"\r\n\r\n")
        if b" 202 " not in answer.split(b"\r\n", 1)[0]:
            raise RuntimeError(answer.decode(errors="replace"))
        length = next(
            (
                int(line.split(b":")[1])
                for line in answer.lower().split(b"\r\n")
                if line.startswith(b"content-length")
            ),
            0,
        )
        await reader.readexactly(length)
    writer.close()
    await writer.wait_closed()
