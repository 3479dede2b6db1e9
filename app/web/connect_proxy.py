"""The CONNECT proxy on `proxy.sock`: the only way out of a local sandbox beside the gateway.

Names are resolved here, not by the sandbox, and the connection goes to an address that was checked, so a name that
changes its mind in between gains nothing. Only port 443 of `SANDBOX_ALLOW_HOSTS`; what is inside is the sandbox's.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.observability.logging import get_logger
from app.web.metrics import Metrics

log = get_logger()

_REQUEST = re.compile(rb"CONNECT ([A-Za-z0-9.-]{1,253}|\[[0-9a-fA-F:.]{2,45}\]):([0-9]{1,5}) HTTP/1\.[01]\r?")
_CHUNK_BYTES = 65_536
_HEAD_BYTES = 8_192

Resolve = Callable[[str], Awaitable[Sequence[str]]]
Dial = Callable[[str, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


@dataclass(frozen=True)
class ProxyLimits:
    head_s: float = 10.0
    connect_s: float = 10.0
    idle_s: float = 300.0
    connections: int = 256


class _Refused(Exception):
    def __init__(self, status: str, outcome: str) -> None:
        super().__init__(outcome)
        self.status = status
        self.outcome = outcome


def is_host_allowed(host: str, allowed: Sequence[str]) -> bool:
    """`*.example.org` allows every name below it, not `example.org` itself. Case and a final dot don't matter."""
    name = host.lower().rstrip(".")
    for entry in (one.lower().rstrip(".") for one in allowed):
        if entry.startswith("*."):
            if name.endswith(entry[1:]) and len(name) > len(entry) - 1:
                return True
        elif name == entry:
            return True
    return False


def is_public_address(text: str) -> bool:
    """Whether an IP address is on the public internet: not private, loopback, link-local (metadata servers), shared,
    multicast or reserved, also not when wrapped in an IPv6 transition form.
    """
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is not None:
            return is_public_address(str(inner))
        if address in _NAT64:
            return is_public_address(str(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)))
        if address.teredo is not None:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


async def _resolve(host: str) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


async def _dial(address: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(address, port)


class ConnectProxy:
    """Serves one unix socket until `aclose`."""

    def __init__(
        self,
        allow_hosts: Sequence[str],
        metrics: Metrics,
        *,
        limits: ProxyLimits | None = None,
        resolve: Resolve = _resolve,
        dial: Dial = _dial,
    ) -> None:
        self._allowed = tuple(allow_hosts)
        self._metrics = metrics
        self._limits = limits or ProxyLimits()
        self._resolve = resolve
        self._dial = dial
        self._running: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self, path: Path) -> None:
        """Raises OSError when the socket can't be made. Its directory keeps others out."""
        self._server = await asyncio.start_unix_server(self._accept, path, limit=_HEAD_BYTES)

    async def aclose(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._running) >= self._limits.connections:
            self._metrics.proxy.labels("busy").inc()
            writer.close()
            return
        self._running.add(task)
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            self._running.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(self._limits.head_s):
                host, port = await _read_head(reader)
            far_reader, far_writer = await self._connect(host, port)
        except _Refused as refusal:
            self._metrics.proxy.labels(refusal.outcome).inc()
            writer.write(
                f"HTTP/1.1 {refusal.status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
            )
            with suppress(OSError):
                await writer.drain()
            return
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            self._metrics.proxy.labels("malformed").inc()
            return
        self._metrics.proxy.labels("opened").inc()
        try:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await self._relay((reader, writer), (far_reader, far_writer))
        finally:
            far_writer.close()

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Raises _Refused."""
        if port != 443 or not is_host_allowed(host, self._allowed):
            log.warning("proxy.host_refused", host=host, port=port)
            raise _Refused("403 Forbidden", "host_refused")
        try:
            async with asyncio.timeout(self._limits.connect_s):
                addresses = await self._resolve(host)
                public = [address for address in addresses if is_public_address(address)]
                if not public:
                    log.warning("proxy.address_refused", host=host)
                    raise _Refused("403 Forbidden", "address_refused")
                return await self._first(public, port)
        except (OSError, UnicodeError) as error:  # TimeoutError is an OSError
            log.info("proxy.unreachable", host=host, error=type(error).__name__)
            raise _Refused("502 Bad Gateway", "unreachable") from None

    async def _first(
        self, addresses: Sequence[str], port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The first address that answers. Raises the last OSError."""
        failure: OSError = OSError("no address")
        for address in addresses:
            try:
                return await self._dial(address, port)
            except OSError as error:
                failure = error
        raise failure

    async def _relay(
        self,
        near: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        far: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        """Both ways, each ended on its own; silence both ways for `idle_s` ends it."""
        loop = asyncio.get_running_loop()
        moved_at = loop.time()

        async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal moved_at
            while piece := await reader.read(_CHUNK_BYTES):
                moved_at = loop.time()
                writer.write(piece)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()

        pumps = {asyncio.create_task(pump(near[0], far[1])), asyncio.create_task(pump(far[0], near[1]))}
        try:
            waiting = set(pumps)
            while waiting and (rest_s := moved_at + self._limits.idle_s - loop.time()) > 0:
                done, waiting = await asyncio.wait(
                    waiting, timeout=rest_s, return_when=asyncio.FIRST_COMPLETED
                )
                if any(not one.cancelled() and one.exception() for one in done):
                    break
        finally:
            for one in pumps:
                one.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)


async def _read_head(reader: asyncio.StreamReader) -> tuple[str, int]:
    """Raises _Refused for anything but CONNECT; headers are read and dropped."""
    line = (await reader.readuntil(b"\n"))[:-1]
    match = _REQUEST.fullmatch(line)
    size = len(line)
    while (await reader.readuntil(b"\n")).strip():
        size += 1
        if size > _HEAD_BYTES:
            raise _Refused("431 Request Header Fields Too Large", "malformed")
    if match is None:
        outcome = "405 Method Not Allowed" if not line.startswith(b"CONNECT ") else "400 Bad Request"
        raise _Refused(outcome, "malformed")
    return match[1].decode().strip("[]"), int(match[2])
