"""The few hosts that a machine in a fixed network reaches: ports of this host, through sockets in the machine."""

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

PIECE = 65536


def socket_name(port: int) -> str:
    """Beside the daemon's own; the daemon listens on that port and passes everything on."""
    return f"route-{port}.sock"


class Routes:
    """``ports`` of 127.0.0.1, which stand for the public hosts of Daytona's list."""

    def __init__(self, directory: Path, ports: Sequence[int]) -> None:
        self._directory = directory
        self._ports = ports
        self._servers: list[asyncio.Server] = []

    async def open(self) -> None:
        for port in self._ports:
            path = self._directory / socket_name(port)
            path.unlink(missing_ok=True)
            self._servers.append(await asyncio.start_unix_server(partial(_pass_on, port), str(path)))

    def close(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()


async def _pass_on(port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        there, back = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        writer.close()
        return
    await asyncio.gather(_copy(reader, back), _copy(there, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(PIECE):
            writer.write(data)
            await writer.drain()
    writer.close()
