"""Two web and two worker processes on one PostgreSQL and one Redis: everything happens once, whoever is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.cli.running import free_port
from tests.flow.balancer import Balancer
from tests.flow.combination import running_servers
from tests.flow.test_interference import held_script
from tests.flow.test_kills import assert_done_once
from tests.flow.world import World

SPECS = 4


class Pair:
    """The product of `up`, whose sandboxes talk to its web process, and one more web and worker process."""

    def __init__(self, world: World, ports: tuple[int, int]) -> None:
        self.world = world
        self.ports = ports
        self.web = self.start_web()
        self.worker = self.start_worker()

    def start_web(self) -> subprocess.Popen[bytes]:
        own = {"ISSUEWRIGHT_HOME": str(self.world.home / "state-2"), "PORT": str(self.ports[1])}
        web = self.world.spawn("web-2", ["app", "web"], self.world.environment | own)
        self.world.wait(partial(self._ready, web), "the second web process")
        return web

    def start_worker(self) -> subprocess.Popen[bytes]:
        return self.world.spawn("worker-2", ["app", "worker"], self.world.environment)

    def _ready(self, web: subprocess.Popen[bytes]) -> bool:
        assert web.poll() is None, self.world.log_tail("web-2")
        try:
            return httpx.get(f"http://127.0.0.1:{self.ports[1]}/readyz", trust_env=False).is_success
        except httpx.TransportError:
            return False

    def stored(self) -> list[float]:
        """Deliveries that each web process has stored since it started."""
        counts = []
        for port in self.ports:
            text = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
            found = re.search(r'^issuewright_deliveries_total\{outcome="stored"\} (\S+)', text, re.MULTILINE)
            counts.append(float(found[1]) if found else 0.0)
        return counts

    def steps(self) -> list[int]:
        """Steps that each worker process has ended."""
        logs = Path(self.world.home / "logs")
        return [(logs / f"{name}.log").read_text().count('"step.ended"') for name in ("up", "worker-2")]


@pytest.fixture(scope="module")
def pair(provider: str, on_servers: bool) -> Iterator[Pair]:
    if not on_servers:
        pytest.skip("one SQLite file has one product; run by `make test-servers`")
    ports = (free_port(), free_port())
    with closing(Balancer(ports)) as front, running_servers() as servers:
        settings = {"PORT": str(ports[0]), "LOG_LEVEL": "debug"}
        with World.running(provider, servers, public_port=front.port, **settings) as world:
            yield Pair(world, ports)


def test_several_specs_at_once_are_each_done_once_by_both(pair: Pair) -> None:
    kits = [pair.world.repository() for _ in range(SPECS)]
    numbers = [kit.start("edit_readme") for kit in kits]
    for kit, number in zip(kits, numbers, strict=True):
        kit.rest()
        assert_done_once(kit, number, ["README.md"])
    assert all(pair.stored()), "both web processes took deliveries in"
    assert all(pair.steps()), "both workers worked"


def test_one_of_each_killed_in_the_middle_and_everything_is_done_once(pair: Pair) -> None:
    world = pair.world
    names = ["up-dies", "second-dies"]
    for name in names:
        held_script(world, name)
    kits = [world.repository() for _ in names]
    numbers = [kit.start(name) for kit, name in zip(kits, names, strict=True)]
    for kit, name in zip(kits, names, strict=True):
        kit.wait_gate(name)
    children = world.children()
    for pid in (children["worker"], pair.web.pid):
        os.kill(pid, signal.SIGKILL)
    pair.web.wait()
    world.open_gate("up-dies")  # heard and worked on by those that are left
    kits[0].rest()
    pair.web = pair.start_web()
    for pid in (world.children()["web"], pair.worker.pid):
        os.kill(pid, signal.SIGKILL)
    pair.worker.wait()
    world.open_gate("second-dies")
    kits[1].rest()
    pair.worker = pair.start_worker()
    for kit, number in zip(kits, numbers, strict=True):
        assert_done_once(kit, number)
