"""The repository's own commands, run like the agent's: no input, no token, ended with all they started."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from sandbox_payload.processes import descendants
from sandbox_payload.wire import CommandReport

_KEPT_BYTES = 16_000


async def run_command(command: str, workspace: Path, limit_s: float) -> CommandReport:
    """Runs `command` with sh in the work tree; what it left running is killed when it ends or is cut."""
    started = time.monotonic()
    process = await _start(command, workspace)
    output = bytearray()
    reading = asyncio.create_task(_keep_end(process, output))
    exit_code: int | None = None
    try:
        async with asyncio.timeout(limit_s):
            exit_code = await process.wait()
    except TimeoutError:
        pass
    finally:
        _kill_group(process.pid)
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await reading
                # Its end is known a moment after its output's; an event loop that closes between the two leaves it open.
                await process.wait()
        reading.cancel()
    return CommandReport(
        command=command[:2_000],
        exit_code=exit_code,
        seconds=round(time.monotonic() - started, 3),
        output=output.decode(errors="replace"),
    )


async def _start(command: str, workspace: Path) -> asyncio.subprocess.Process:
    """Cancelled halfway, asyncio would kill the shell alone and wait for its children, who hold its output, to end."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            command,
            cwd=workspace,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with suppress(OSError):  # it could not be started
            process = await starting
            _kill_group(process.pid)
            await asyncio.shield(process.wait())
        raise


async def _keep_end(process: asyncio.subprocess.Process, output: bytearray) -> None:
    if process.stdout is None:
        return
    while chunk := await process.stdout.read(65_536):
        output += chunk
        del output[:-_KEPT_BYTES]


def _kill_group(leader: int) -> None:
    for pid in descendants(leader):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
