"""A database server that is cut off: connections break in the middle, new ones are refused, for twenty seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from sqlalchemy import make_url

from tests.crash.faults import settle
from tests.crash.proxy import Proxy
from tests.crash.report import note
from tests.crash.test_sweep import assert_one_of_each
from tests.crash.test_web_killed import send_again
from tests.flow.combination import Servers, running_servers
from tests.flow.test_interference import bash
from tests.flow.world import World

pytestmark = [pytest.mark.crash, pytest.mark.needs_postgres, pytest.mark.needs_redis]

CUT_S = 20.0


@pytest.fixture
def servers() -> Iterator[Servers]:
    with running_servers() as own:
        yield own


@pytest.fixture
def proxy(servers: Servers) -> Iterator[Proxy]:
    url = make_url(servers.database_url)
    with Proxy.running(url.host or "127.0.0.1", url.port or 5432) as proxy:
        yield proxy


@pytest.fixture
def world(provider: str, servers: Servers, proxy: Proxy) -> Iterator[World]:
    """Its processes reach the database through the proxy; the test looks into it past the proxy."""
    through = make_url(servers.database_url).set(host="127.0.0.1", port=proxy.port)
    url = through.render_as_string(hide_password=False)
    with World.running(provider, servers, DATABASE_URL=url) as own:
        yield own


def test_database_cut_off_for_twenty_seconds_while_the_agent_works(
    world: World, proxy: Proxy, request: pytest.FixtureRequest
) -> None:
    kit = world.repository()
    script = "crash-cut"
    world.script(script, [bash("echo more >> README.md", gate=script), {"text": "Done."}])
    number = kit.start(script)
    kit.wait_gate(script)
    processes = world.children()
    proxy.cut()
    cut_at = time.monotonic()
    world.open_gate(script)
    world.github.comment(kit.name, number, "carol", "Said while nothing could be stored.")
    world.wait(lambda: time.monotonic() - cut_at > CUT_S, "the end of the cut")
    proxy.let_through()
    back_at = time.time()
    send_again(world, kit)
    settled_s = settle(world, kit, faulted_at=back_at)
    assert_one_of_each(kit, number)
    assert world.children() == processes, "nobody has to be started again"
    note(request, "while the agent works", "database server cut off 20 s", reached=1, settled_s=settled_s)
