"""What a machine whose agent is over still holds, brought to this host; one that stands still is started for it.

A stop ends every process in a machine and keeps its files, which the toolbox gives out only while it runs. A start runs
nothing of ours: the agent was a command of a session, and sessions go with the stop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

from app.domain.errors import Gone, OutsideError, RetryAt, TooMuch, Unexpected
from app.domain.remote import Left
from app.sandbox import daytona_inside as inside
from app.sandbox.daytona_client import CALL_S, DaytonaClient
from app.sandbox.daytona_errors import BUSY
from app.sandbox.daytona_link import is_made_for_relay
from app.sandbox.daytona_making import DaytonaPace
from app.sandbox.daytona_relay import DaytonaFiles
from app.sandbox.daytona_states import STARTABLE, Stage, stage_of, state_text
from sandbox_payload.wire import MAX_ARTIFACT_BYTES
from sandbox_payload.wire.left import (
    KEPT_FILE,
    LEFT_FILES,
    MAX_SPOOL_FILE_BYTES,
    WORK_FILE,
)

_log = logging.getLogger(__name__)

_TRIES = 5
"""To read of a machine that Daytona calls started: it may be a dead one."""


async def save_left(
    client: DaytonaClient, files: DaytonaFiles, name: str, directory: Path, pace: DaytonaPace
) -> Left:
    """See `remote.KeepsFiles`."""
    await asyncio.to_thread(directory.mkdir, 0o700, parents=True, exist_ok=True)
    for left in reversed(range(_TRIES)):
        machine = await _wake(client, name, pace)
        if machine is None:
            return Left()
        try:
            return await _read(client, files, machine, directory)
        except Gone:
            return Left()
        except RetryAt as error:
            files.forget(name)
            if not left:
                raise Unexpected(f"its files can't be read: {error}") from error
            seconds = (error.at - client.clock()).total_seconds()
            await asyncio.sleep(min(max(seconds, pace.look_s), pace.reread_s))
    raise AssertionError("not reached")


async def _wake(client: DaytonaClient, name: str, pace: DaytonaPace) -> Any | None:
    """The machine, started; None when there is none, or none that could be. Raises RetryAt while it can't be started."""
    until = time.monotonic() + pace.start_s
    while (machine := await client.find(name)) is not None:
        stage, state = stage_of(machine.state), state_text(machine.state)
        if stage is Stage.STARTED:
            return machine
        if stage in {Stage.BROKEN, Stage.GOING, Stage.GONE}:
            return None
        if time.monotonic() > until:
            raise Unexpected(f"it is still {state} after {pace.start_s:g} s")
        if state in STARTABLE:
            _log.info("%s is %s: started for what it holds", name, state)
            await _start(client, machine)
        await asyncio.sleep(pace.look_s)
    return None


async def _start(client: DaytonaClient, machine: Any) -> None:
    """Raises what `DaytonaClient.call` does, unless it has left its state all the same: by an answer that came late or
    got lost, or by somebody else.
    """
    before = state_text(machine.state)
    try:
        await client.call(lambda _: machine.start(timeout=CALL_S - 2))
    except OutsideError:
        found = await client.find(machine.id)
        if found is not None and state_text(found.state) == before:
            raise


async def _read(client: DaytonaClient, files: DaytonaFiles, machine: Any, directory: Path) -> Left:
    sizes = await inside.list_left(client, machine)
    saved = {}
    for file, size in sizes.items():
        target = directory / Path(file).name
        limit = MAX_ARTIFACT_BYTES if file in LEFT_FILES else MAX_SPOOL_FILE_BYTES
        try:
            there = await files.save_file(machine.name, file, target, limit)
        except TooMuch:
            _log.warning("%s of %s is too large to be saved", file, machine.name)
            continue
        got = (await asyncio.to_thread(target.stat)).st_size
        if there and got != size:
            raise RetryAt(f"{got} bytes of {size}", client.clock() + BUSY)
        if there:
            saved[file] = target
    newest = next((file for file in saved if file in {WORK_FILE, KEPT_FILE}), None)  # they are listed so
    spool = (path for file, path in saved.items() if file not in LEFT_FILES)
    return Left.of(saved, newest, spool, relayed=is_made_for_relay(machine))
