"""A whole `issuewright up` on this machine at work: how long until the model is first asked, how often GitHub is written
to, how much memory the idle processes hold.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from signal import SIGTERM

from app.cli.demo.stage import Place, Stage, Stagehand
from app.domain.pace import FARTHEST_AHEAD
from app.queue.child import Child, Command
from app.settings import child_environment
from bench.figures import Figure, middle

RUNS = 3
LABEL = "agent:quick"
WAIT_S = 90.0
IDLE_S = 5.0
QUIET_S = FARTHEST_AHEAD.total_seconds()
"""After a run: its last writes, its sandbox's end, and until the installation may be written to as freely as before it.
Labels that come closer together wait for the pace of writes, not for anything that is measured here.
"""


async def measure(runs: int = RUNS) -> list[Figure]:
    """The first run warms up and is counted for its writes; the others take turns with the SDK alone."""
    stagehand = Stagehand(idle_s=1)
    try:
        stage = await stagehand.build(Place("bubblewrap"))
        await _run(stage, 1)
        writes = await stage.github.count_writes()
        ours: list[float] = []
        floor: list[float] = []
        async with simulated_model(stage.home) as (model_url, key):
            for number in range(2, runs + 2):
                floor.append(await measure_floor(model_url, key))
                ours.append(await _run(stage, number))
        await asyncio.sleep(IDLE_S)
        memory = resident_mb(stage.up.pid)
    finally:
        await stagehand.clear(remove=True)
    ratio = round(middle(ours) / middle(floor), 2)
    return [
        Figure("label to the model's first request / the SDK alone", ratio, "x", "at most", 3),
        Figure("label to the model's first request", middle(ours), "s"),
        Figure("the SDK alone: connect to first request", middle(floor), "s"),
        Figure("writes to GitHub in one quick run", float(writes), "", "at most", 15),
        Figure("resident memory, idle: web", memory["web"], "MB", "at most", 120),
        Figure("resident memory, idle: worker", memory["worker"], "MB", "at most", 150),
    ]


async def _run(stage: Stage, number: int) -> float:
    """One issue from its label to a pull request that is ready; seconds until the model was first asked."""
    issue = int((await stage.github.open_issue())["number"])
    labeled = time.monotonic()
    await stage.github.label(issue, LABEL)
    asked = await stage.wait_for(
        lambda: _asked_since(stage, labeled), f"the model's first request of run {number}", WAIT_S
    )

    async def ready() -> bool | None:
        states = {one["issue"]: one["state"] for one in (await stage.ask("/specs"))["items"]}
        return True if states.get(issue) == "in_review" else None

    await stage.wait_for(ready, f"the pull request of run {number}", WAIT_S)
    await asyncio.sleep(QUIET_S)
    return asked - labeled


async def _asked_since(stage: Stage, since: float) -> float | None:
    times = [at for at in await stage.model_calls() if at >= since]
    return min(times, default=None)


@asynccontextmanager
async def simulated_model(home: Path) -> AsyncIterator[tuple[str, str]]:
    """A simulated model of its own for the SDK alone: its address and key."""
    ready, key = home / "floor.ready", secrets.token_hex(8)
    argv = [sys.executable, "-P", "-m", "simulators", "model", "--port", "0"]
    child = await Child.start(
        Command(
            "floor",
            [*argv, "--ready-file", str(ready), "--api-key", key],
            child_environment(),
            stop_signal=SIGTERM,
        )
    )
    try:
        async with asyncio.timeout(30):
            while not ready.exists():  # noqa: ASYNC110 - a file of another process
                await asyncio.sleep(0.05)
        yield str(json.loads(ready.read_text())["url"]), key
    finally:
        await child.stop()


async def measure_floor(model_url: str, key: str) -> float:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.floor", model_url, key, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError("the SDK alone did not reach the model")
    return float(output)


def resident_mb(parent: int) -> dict[str, float]:
    """Of the children of `issuewright up`, by what they run."""
    found: dict[str, float] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
            words = status.with_name("cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if int(fields["PPid"]) == parent and "VmRSS" in fields:
            role = "worker" if "worker" in words else "web" if "app.web" in words else "other"
            found[role] = round(int(fields["VmRSS"].split()[0]) / 1024, 1)
    return found
