"""Durable webhook receipts per second of one web process, against two servers that store nothing."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.figures import Figure, middle
from bench.poster import post_all
from bench.servers import SECRET, app_environment, running

ROUNDS = 3
REQUESTS = 3_000
_SERVERS: dict[str, Sequence[str]] = {
    "bare": ("uvicorn", "bench.bare:app", "--log-level", "warning", "--no-access-log"),
    "gidgethub": ("bench.gidget",),
    "durable": ("app", "web"),
}


def measure(requests: int = REQUESTS, rounds: int = ROUNDS) -> list[Figure]:
    """The three take turns, so that a disturbance meets all of them; the medians are compared."""
    per_s: dict[str, list[float]] = {name: [] for name in _SERVERS}
    with tempfile.TemporaryDirectory(prefix="iw-bench-") as home:
        environment = app_environment(Path(home))
        subprocess.run(
            [sys.executable, "-m", "app", "migrate"], env=environment, check=True, capture_output=True
        )
        for _ in range(rounds):
            for name, module in _SERVERS.items():
                with running(module, environment) as port:
                    post_all(port, "/webhooks/github", SECRET, requests // 5)
                    per_s[name].append(post_all(port, "/webhooks/github", SECRET, requests))
    bare, gidgethub, durable = (middle(per_s[name], 0) for name in _SERVERS)
    return [
        Figure("receipts: durable / bare HMAC endpoint", round(durable / bare, 2), "x", "at least", 0.4),
        Figure("receipts: durable / gidgethub on aiohttp", round(durable / gidgethub, 2), "x", "at least", 1),
        Figure("receipts: durable", durable, "/s"),
        Figure("receipts: bare HMAC endpoint", bare, "/s"),
        Figure("receipts: gidgethub on aiohttp", gidgethub, "/s"),
    ]
