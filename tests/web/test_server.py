"""The web process as a whole, on real sockets."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from sqlalchemy import select

from app.db.models import Process
from app.domain.errors import SettingsError
from app.web.server import serve
from app.web.sockets import GATEWAY_SOCKET, PROXY_SOCKET, bind_tcp, gateway_dir
from tests.web.conftest import OPERATOR, World, add_sandbox, bearer, until


class Running:
    def __init__(self, task, port: int, directory: Path) -> None:
        self.task, self.url, self.directory = task, f"http://127.0.0.1:{port}", directory

    def gateway(self, **headers: str) -> httpx.AsyncClient:
        transport = httpx.AsyncHTTPTransport(uds=str(self.directory / GATEWAY_SOCKET))
        return httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers, timeout=30)


async def start(world: World) -> Running:
    ready: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    settings = world.settings.model_copy(update={"port": 0})
    task = asyncio.create_task(serve(settings, None, "host-1", ready.set_result))
    await until(lambda: ready.done() or task.done(), 10)
    if task.done():
        await task
    return Running(task, ready.result(), gateway_dir(settings.issuewright_home))


async def stop(running: Running) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(5):
        await running.task


async def test_process_serves_both_apps_and_the_proxy_then_stops_leaving_no_sockets(world):
    sandbox_id, token = await add_sandbox(world)
    running = await start(world)
    async with httpx.AsyncClient() as http, running.gateway(**bearer(token)) as gateway:
        assert (await http.get(running.url + "/healthz")).status_code == 200
        assert (await http.get(running.url + "/api/v1/specs", headers=OPERATOR)).status_code == 200
        assert (await gateway.get(f"/api/v1/sandboxes/{sandbox_id}/messages")).status_code == 200
        assert (await gateway.get("/api/v1/specs", headers=OPERATOR)).status_code == 404
        assert (await gateway.get("/metrics")).status_code == 404
    reader, writer = await asyncio.open_unix_connection(running.directory / PROXY_SOCKET)
    writer.write(b"CONNECT x.test:443 HTTP/1.1\r\n\r\n")
    assert b" 403 " in await reader.readline()
    writer.close()
    assert stat.S_IMODE(running.directory.stat().st_mode) == 0o700

    async def beaten():
        async with world.database.read() as session:
            return (await session.scalars(select(Process))).all()

    (beat,) = await until(beaten)
    assert (beat.kind, beat.host_id, beat.pid) == ("web", "host-1", os.getpid())
    await stop(running)
    assert list(running.directory.iterdir()) == []


async def test_stop_while_polls_wait_then_they_are_answered_and_it_takes_no_time(world):
    sandbox_id, token = await add_sandbox(world)
    running = await start(world)
    async with running.gateway(**bearer(token)) as gateway:
        poll = asyncio.create_task(
            gateway.get(f"/api/v1/sandboxes/{sandbox_id}/messages", params={"wait": 25})
        )
        await asyncio.sleep(0.2)
        await stop(running)
        assert (await poll).json() == {"messages": [], "last_seq": 0}


async def test_stale_sockets_of_a_killed_process_then_replaced(world):
    directory = gateway_dir(world.settings.issuewright_home)
    for name in (GATEWAY_SOCKET, PROXY_SOCKET):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(directory / name))
    running = await start(world)
    async with running.gateway() as gateway:
        assert (await gateway.get("/nothing")).status_code == 404
    await stop(running)


async def test_second_process_on_the_same_home_then_a_clear_error(world):
    running = await start(world)
    with pytest.raises(SettingsError, match="another web process"):
        await start(world)
    async with httpx.AsyncClient() as http:
        assert (await http.get(running.url + "/healthz")).status_code == 200
    await stop(running)


def test_port_taken_then_a_line_that_names_it():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=f"PORT: {port} on 127.0.0.1 is taken"):
            bind_tcp("127.0.0.1", port)


def test_host_of_another_machine_then_a_line_that_names_it():
    for host in ("192.0.2.1", "no-such-host.invalid"):
        with pytest.raises(SettingsError, match="HOST"):
            bind_tcp(host, 0)


def test_long_home_then_a_short_private_directory_of_its_own(tmp_path):
    long = tmp_path / ("x" * 90)
    first, second = gateway_dir(long), gateway_dir(tmp_path / ("y" * 90))
    try:
        assert first != second
        for path in (first, second):
            assert len(str(path / GATEWAY_SOCKET)) <= 100
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert gateway_dir(long) == first
    finally:
        first.rmdir()
        second.rmdir()


async def test_idle_and_half_open_connections_then_health_is_quick(world):
    running = await start(world)
    port = int(running.url.rsplit(":", 1)[1])
    open_ones = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
    for _, writer in open_ones[:100]:
        writer.write(b"POST /webhooks/github HTTP/1.1\r\nHost: x\r\n")
    async with httpx.AsyncClient(timeout=1) as http:
        assert (await http.get(running.url + "/healthz")).status_code == 200
    for _, writer in open_ones:
        writer.transport.abort()
    await stop(running)


def test_web_starts_without_the_heavy_libraries():
    probe = "import sys, app.web.server; print([m for m in ('githubkit', 'daytona_sdk', 'claude_agent_sdk', 'worker') if m in sys.modules])"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", probe], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
