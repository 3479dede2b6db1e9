"""Files of a machine's payload, read and written through Daytona's toolbox: the carrier's end of a relay.

The machine belongs to its agent: a file may be anything, of any size, or grow while it is read. So everything is
streamed and counted, and the call ends at its limit whatever the machine does.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from app.domain.errors import Gone, OutsideError, RetryAt, TooMuch
from app.sandbox.daytona_client import CALL_S, DaytonaClient
from app.sandbox.daytona_errors import BUSY
from app.sandbox.daytona_inside import FOLDER

STATE = f"{FOLDER}/state"
"""Relative to the machine's working directory, as the toolbox takes paths."""
SAVE_S = 600.0


class DaytonaFiles:
    """Implements `remote.RelayFiles` for one account. What is kept is only where machines are reached."""

    def __init__(self, client: DaytonaClient) -> None:
        self._client = client
        self._machines: dict[str, Any] = {}

    async def fetch_file(self, name: str, file: str, limit: int) -> bytes | None:
        kept = bytearray()
        found = await self._read(name, file, limit, kept.extend, CALL_S)
        return bytes(kept) if found else None

    async def save_file(self, name: str, file: str, target: Path, limit: int) -> bool:
        with target.open("wb") as out:
            return await self._read(name, file, limit, out.write, SAVE_S)

    async def put_file(self, name: str, file: str, data: bytes) -> None:
        machine = await self._machine(name)
        if machine is None:
            return
        try:
            await self._client.call(
                lambda _: machine.fs.upload_file(data, f"{STATE}/{file}", timeout=int(CALL_S))
            )
        except OutsideError:
            self._machines.pop(name, None)
            raise

    async def _read(self, name: str, file: str, limit: int, take: Any, limit_s: float) -> bool:
        machine = await self._machine(name)
        if machine is None:
            return False

        # The SDK lets errors of its HTTP library through where it streams.
        library_error = importlib.import_module("aiohttp").ClientError

        async def read(_: Any) -> None:
            stream = await machine.fs.download_file_stream(f"{STATE}/{file}", timeout=int(limit_s))
            try:
                await _drain(stream, limit, take)
            except library_error as error:
                if getattr(error, "status", None) == 404:
                    raise Gone(file) from error
                raise RetryAt(f"Daytona: {type(error).__name__}", self._client.clock() + BUSY) from error

        try:
            await self._client.call(read, limit_s)
        except Gone:
            self._machines.pop(name, None)  # the file or the machine: the next look finds out
            return False
        except OutsideError:
            self._machines.pop(name, None)
            raise
        return True

    async def _machine(self, name: str) -> Any | None:
        if name not in self._machines:
            found = await self._client.find(name)
            if found is None:
                return None
            self._machines[name] = found
        return self._machines[name]

    def forget(self, name: str) -> None:
        self._machines.pop(name, None)


async def _drain(stream: AsyncIterator[bytes], limit: int, take: Any) -> None:
    size = 0
    try:
        async for piece in stream:
            size += len(piece)
            if size > limit:
                raise TooMuch(f"more than {limit} bytes")
            take(piece)
            await asyncio.sleep(0)
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            await close()
