"""Durable webhook receipts per second of one web process, against two servers that store nothing."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.figures import Figure, middle
from bench.poster import post_all
from bench.servers import SECRET, app_environment, running

ROUNDS = 15
REQUESTS = 3_000
"""Enough that the first and the last group of a round, for which the server waits without work, do not count."""
PATH = "/webhooks/github"
_SERVERS: Mapping[str, Sequence[str]] = {
    "bare": ("uvicorn", "bench.bare:app", "--log-level", "warning", "--no-access-log"),
    "gidgethub": ("bench.gidget",),
    "durable": ("app", "web"),
}


def measure(requests: int = REQUESTS, rounds: int = ROUNDS) -> list[Figure]:
    """All three run; short rounds take turns, so that a disturbance meets all of them. The median of the rounds'
    ratios counts.
    """
    per_s = _measure_per_s(requests, rounds)
    to_bare, to_gidgethub = (
        middle([ours / theirs for ours, theirs in zip(per_s["durable"], per_s[name], strict=True)], 2)
        for name in ("bare", "gidgethub")
    )
    return [
        Figure("receipts: durable / bare HMAC endpoint", to_bare, "x", "at least", 0.4),
        Figure("receipts: durable / gidgethub on aiohttp", to_gidgethub, "x", "at least", 1),
        Figure("receipts: durable", middle(per_s["durable"], 0), "/s"),
        Figure("receipts: bare HMAC endpoint", middle(per_s["bare"], 0), "/s"),
        Figure("receipts: gidgethub on aiohttp", middle(per_s["gidgethub"], 0), "/s"),
    ]


def _measure_per_s(requests: int, rounds: int) -> dict[str, list[float]]:
    per_s: dict[str, list[float]] = {name: [] for name in _SERVERS}
    with tempfile.TemporaryDirectory(prefix="iw-bench-") as home, ExitStack() as stack:
        environment = app_environment(Path(home))
        subprocess.run(
            [sys.executable, "-m", "app", "migrate"], env=environment, check=True, capture_output=True
        )
        log = stack.enter_context((Path(home) / "log").open("wb"))
        ports = {
            name: stack.enter_context(running(module, environment, log)) for name, module in _SERVERS.items()
        }
        for port in ports.values():
            post_all(port, PATH, SECRET, requests)  # warms up
        for _ in range(rounds):
            for name, port in ports.items():
                per_s[name].append(post_all(port, PATH, SECRET, requests))
    return per_s
