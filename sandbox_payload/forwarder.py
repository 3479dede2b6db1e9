"""`python -m sandbox_payload.forwarder --route PORT=SOCKET [--route ...] -- COMMAND...`

Gives a sandbox without network a URL: listens on 127.0.0.1:PORT, relays bytes to a unix socket, runs COMMAND beside it
and ends with COMMAND's exit code. The socket is looked up by path for every connection, so a restarted app is found
again; while it is away, connections are closed at once and the client tries again. Standard library only.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress

_CHUNK_BYTES = 65_536


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _relay(socket_path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One connection, both ways, each direction ended on its own; any error ends both."""
    try:
        far_reader, far_writer = await asyncio.open_unix_connection(socket_path)
    except OSError:
        writer.transport.abort()
        return
    pumps = [
        asyncio.ensure_future(_pump(reader, far_writer)),
        asyncio.ensure_future(_pump(far_reader, writer)),
    ]
    try:
        await asyncio.gather(*pumps)
    except OSError:
        far_writer.transport.abort()
        writer.transport.abort()
    finally:
        for pump in pumps:
            pump.cancel()
        far_writer.close()
        writer.close()


async def forward(routes: Sequence[tuple[int, str]], command: Sequence[str]) -> int:
    """Serves `routes` (port, socket path) while `command` runs; its exit code, 128 + N when signal N ended it.

    Raises OSError when a port is taken or the command can't be started.
    """
    async with AsyncExitStack() as stack:
        for port, socket_path in routes:

            async def relay(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str = socket_path
            ) -> None:
                with suppress(
                    asyncio.CancelledError
                ):  # open connections at the end; streams would log a traceback
                    await _relay(path, reader, writer)

            server = await asyncio.start_server(relay, "127.0.0.1", port)
            stack.callback(server.close)
        signals: asyncio.Queue[signal.Signals] = asyncio.Queue()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, signals.put_nowait, number)
        child = await asyncio.create_subprocess_exec(*command)
        passing = asyncio.ensure_future(_pass_on(signals, child))
        code = await child.wait()
        passing.cancel()
    return 128 - code if code < 0 else code


async def _pass_on(signals: asyncio.Queue[signal.Signals], child: asyncio.subprocess.Process) -> None:
    while True:
        number = await signals.get()
        with suppress(ProcessLookupError):
            child.send_signal(number)


def _route(text: str) -> tuple[int, str]:
    port, separator, path = text.partition("=")
    if not separator or not path or not port.isdigit() or not 0 < int(port) < 65_536:
        raise argparse.ArgumentTypeError(f"expected PORT=SOCKET, got {text!r}")
    return int(port), path


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="sandbox_payload.forwarder", description="Relay local ports to unix sockets."
    )
    parser.add_argument("--route", type=_route, action="append", required=True, metavar="PORT=SOCKET")
    parser.add_argument("command", nargs="+", metavar="COMMAND")
    options = parser.parse_args(argv)
    try:
        return asyncio.run(forward(options.route, options.command))
    except OSError as error:
        print(f"forwarder: {error}", file=sys.stderr)
        return 126


if __name__ == "__main__":
    sys.exit(main())
