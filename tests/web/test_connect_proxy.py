"""The way out: only named hosts, only port 443, only public addresses."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st

from app.web.connect_proxy import ConnectProxy, ProxyLimits, is_host_allowed, is_public_address
from app.web.metrics import Metrics

PUBLIC = "93.184.216.34"


async def echo(reader, writer):
    while data := await reader.read(1000):
        writer.write(data.upper())
        await writer.drain()
    writer.close()


class Net:
    """Names, and who was dialled; every address leads to an echo server on loopback."""

    def __init__(self):
        self.names = {"api.example.org": [PUBLIC]}
        self.dialled = []
        self.port = 0

    async def resolve(self, host):
        if host not in self.names:
            raise OSError("no such name")
        return self.names[host]

    async def dial(self, address, port):
        self.dialled.append((address, port))
        return await asyncio.open_connection("127.0.0.1", self.port)


@asynccontextmanager
async def proxied(tmp_path, allow=("*.example.org", "one.test"), **limits):
    net = Net()
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    net.port = server.sockets[0].getsockname()[1]
    metrics = Metrics()
    proxy = ConnectProxy(allow, metrics, limits=ProxyLimits(**limits), resolve=net.resolve, dial=net.dial)
    path = tmp_path / "proxy.sock"
    await proxy.start(path)

    async def ask(head: bytes):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(head)
        try:
            async with asyncio.timeout(3):
                line = await reader.readline()
        except ConnectionResetError:  # closed with bytes of ours unread
            line = b""
        return line.decode(), reader, writer

    try:
        yield net, ask, metrics
    finally:
        await proxy.aclose()
        server.close()
        await server.wait_closed()


def connect(target: str) -> bytes:
    return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nProxy-Authorization: Basic x\r\n\r\n".encode()


async def test_allowed_host_then_bytes_pass_both_ways_until_each_side_ends(tmp_path):
    async with proxied(tmp_path) as (net, ask, _):
        line, reader, writer = await ask(connect("api.example.org:443"))
        assert " 200 " in line
        assert await reader.readline() == b"\r\n"
        writer.write(b"hello")
        writer.write_eof()
        async with asyncio.timeout(3):
            assert await reader.read() == b"HELLO"
        writer.close()
        assert net.dialled == [(PUBLIC, 443)]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (connect("example.org:443"), 403),
        (connect("evil.org:443"), 403),
        (connect("api.example.org.evil.org:443"), 403),
        (connect("evilexample.org:443"), 403),
        (connect("api.example.org:80"), 403),
        (connect("api.example.org:22"), 403),
        (connect("169.254.169.254:443"), 403),
        (connect("[::1]:443"), 403),
        (connect("missing.example.org:443"), 502),
        (b"GET http://api.example.org/ HTTP/1.1\r\n\r\n", 405),
        (b"CONNECT api.example.org HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT a b:443 HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\n\n", 405),
    ],
)
async def test_anything_else_then_refused_and_nobody_dialled(tmp_path, head, status):
    async with proxied(tmp_path) as (net, ask, _):
        line, _, writer = await ask(head)
        assert f" {status} " in line
        writer.close()
        assert net.dialled == []


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "::1",
        "fe80::1%eth0",
        "fd00::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "x",
    ],
)
async def test_name_leads_inside_then_refused_and_counted(tmp_path, address):
    assert not is_public_address(address)
    async with proxied(tmp_path) as (net, ask, metrics):
        net.names["in.example.org"] = [address]
        line, _, writer = await ask(connect("in.example.org:443"))
        writer.close()
        assert " 403 " in line
        assert net.dialled == []
        assert (
            metrics.registry.get_sample_value(
                "issuewright_proxy_connections_total", {"outcome": "address_refused"}
            )
            == 1
        )


async def test_name_with_inner_and_outer_addresses_then_only_the_outer_is_dialled(tmp_path):
    async with proxied(tmp_path) as (net, ask, _):
        net.names["mixed.example.org"] = ["10.0.0.1", PUBLIC, "2606:2800:220:1::1"]
        line, _, writer = await ask(connect("mixed.example.org:443"))
        writer.close()
        assert " 200 " in line
        assert net.dialled == [(PUBLIC, 443)]


async def test_refused_host_then_named_in_the_log(tmp_path, log_output):
    async with proxied(tmp_path) as (_, ask, metrics):
        _, _, writer = await ask(connect("evil.org:443"))
        writer.close()
    assert "evil.org" in log_output.getvalue()
    assert (
        metrics.registry.get_sample_value("issuewright_proxy_connections_total", {"outcome": "host_refused"})
        == 1
    )


async def test_silence_then_closed(tmp_path):
    async with proxied(tmp_path, idle_s=0.1, head_s=0.1) as (_, ask, _):
        line, reader, writer = await ask(connect("api.example.org:443"))
        assert " 200 " in line
        async with asyncio.timeout(2):
            assert await reader.read() == b"\r\n"
        writer.close()
        line, _, writer = await ask(b"CONN")
        assert line == ""
        writer.close()


async def test_head_without_end_then_closed(tmp_path):
    async with proxied(tmp_path) as (net, ask, _):
        line, _, writer = await ask(b"CONNECT api.example.org:443 HTTP/1.1\r\n" + b"X: " + b"y" * 100_000)
        assert line == ""
        writer.close()
        assert net.dialled == []


async def test_too_many_connections_then_refused(tmp_path):
    async with proxied(tmp_path, connections=1) as (_, ask, _):
        line, _, first = await ask(connect("api.example.org:443"))
        assert " 200 " in line
        line, _, second = await ask(connect("api.example.org:443"))
        assert line == ""
        first.close()
        second.close()


async def test_no_host_allowed_then_everything_refused(tmp_path):
    async with proxied(tmp_path, allow=()) as (_, ask, _):
        line, _, writer = await ask(connect("api.example.org:443"))
        writer.close()
        assert " 403 " in line


@hypothesis_settings(max_examples=50)
@given(name=st.text(max_size=20))
def test_any_name_then_allowed_only_below_the_wildcard(name):
    assert is_host_allowed(name + ".example.org", ["*.example.org"]) == bool(name) or name.endswith(".")
    assert not is_host_allowed(name, [])


def test_case_and_final_dot_do_not_matter():
    assert is_host_allowed("API.Example.ORG.", ["*.example.org"])
    assert is_host_allowed("one.test", ["One.Test"])
    assert not is_host_allowed("two.one.test", ["one.test"])
