"""Carries the calls of one sandbox that can't reach the app, and the app's answers back.

The sandbox is a stranger's: only calls of the sandbox API in its few shapes are carried, each within its size. Nothing
has to be remembered. An event's number, a message's number and an artifact's name make every call safe to repeat; the
payload asks after the last message that it has, and whatever got lost on the way it asks again.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import structlog
from pydantic import ValidationError

from app.db.relay import RelayedSandbox
from app.domain.errors import OutsideError, TooMuch
from app.domain.remote import RelayFiles
from app.observability.crashpoints import crashpoint
from sandbox_payload.wire import MAX_ARTIFACT_BYTES, MAX_EVENTS_BYTES
from sandbox_payload.wire.relay import (
    IN_DIR,
    INDEX_FILE,
    MAX_INDEX_BYTES,
    OUT_DIR,
    RELAY_DIR,
    Lane,
    RelayedAnswer,
    RelayedCall,
    RelayIndex,
)
from worker.supervise.app_door import AppDoor

log = structlog.get_logger("worker.relay")

BUSY_LOOK_S = 0.3
IDLE_LOOK_S = 1.0
"""Between two looks, when something was found in the last ones and when not."""
BUSY_LOOKS = 10
AWAY_S = 2.0
"""After a look that failed."""

_ID = r"[0-9a-fA-F-]{36}"
_SHAPES = {
    Lane.EVENTS: ("POST", re.compile(r"/events"), MAX_EVENTS_BYTES),
    Lane.MESSAGES: ("GET", re.compile(r"/messages\?after=\d{1,10}&wait=\d{1,2}(\.\d{1,6})?"), None),
    Lane.ACKS: ("POST", re.compile(rf"/messages/{_ID}/ack"), None),
    Lane.ARTIFACTS: ("PUT", re.compile(r"/artifacts/[a-z.]{1,40}"), MAX_ARTIFACT_BYTES),
}
"""Method, path and the largest body (None: without one) of what is carried."""


@dataclass
class _Carried:
    call: str
    task: asyncio.Task[bool]
    """True: the answer has arrived."""


class Carrier:
    """`scratch` holds artifacts on their way. Ends only by being cancelled."""

    def __init__(
        self, sandbox: RelayedSandbox, token: str, files: RelayFiles, door: AppDoor, scratch: Path
    ) -> None:
        self._sandbox = sandbox
        self._token = token
        self._files = files
        self._door = door
        self._scratch = scratch
        self._lanes: dict[Lane, _Carried] = {}

    async def run(self) -> None:
        quiet = BUSY_LOOKS
        try:
            while True:
                try:
                    found = await self.look()
                except OutsideError as error:
                    log.info("relay.away", sandbox_id=self._sandbox.sandbox_id, error=str(error)[:200])
                    await asyncio.sleep(AWAY_S)
                    continue
                quiet = 0 if found else quiet + 1
                await asyncio.sleep(BUSY_LOOK_S if quiet < BUSY_LOOKS else IDLE_LOOK_S)
        finally:
            await self.stop()

    async def stop(self) -> None:
        tasks = [one.task for one in self._lanes.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def look(self) -> int:
        """Starts to carry what has not been carried yet; how many calls. Raises what the provider does."""
        started = 0
        for lane, call in (await self._fetch_index()).calls.items():
            before = self._lanes.get(lane)
            if before is not None and before.call == call.call and not _failed(before.task):
                continue
            if before is not None:
                before.task.cancel()  # the payload has given it up for this one
            self._lanes[lane] = _Carried(call.call, asyncio.create_task(self._carry(lane, call)))
            started += 1
        return started

    async def settle(self) -> None:
        """Returns when everything that was started has ended."""
        await asyncio.gather(*(one.task for one in self._lanes.values()), return_exceptions=True)

    async def _fetch_index(self) -> RelayIndex:
        try:
            data = await self._files.fetch_file(
                self._sandbox.name, f"{RELAY_DIR}/{OUT_DIR}/{INDEX_FILE}", MAX_INDEX_BYTES
            )
            return RelayIndex.model_validate_json(data) if data else RelayIndex()
        except (ValidationError, TooMuch):
            # Cut short, or not ours any more: what the payload still wants it says again.
            return RelayIndex()

    async def _carry(self, lane: Lane, call: RelayedCall) -> bool:
        place = self._scratch / f"{self._sandbox.sandbox_id}-{call.call}"
        try:
            crashpoint("relay.before")
            answer = await self._ask(lane, call, place)
            if answer is not None:
                data = answer.model_dump_json().encode()
                await self._files.put_file(
                    self._sandbox.name, f"{RELAY_DIR}/{IN_DIR}/{lane.value}.json", data
                )
            crashpoint("relay.after")
        except (OutsideError, httpx.TransportError, OSError) as error:
            log.info(
                "relay.not_carried",
                sandbox_id=self._sandbox.sandbox_id,
                lane=lane.value,
                error=f"{type(error).__name__}: {error}"[:200],
            )
            await asyncio.sleep(AWAY_S)
            return False
        else:
            return True
        finally:
            with suppress(OSError):
                place.unlink(missing_ok=True)

    async def _ask(self, lane: Lane, call: RelayedCall, place: Path) -> RelayedAnswer | None:
        """None when the body is gone already: the payload has given the call up."""
        method, path, limit = _SHAPES[lane]
        if call.method != method or not path.fullmatch(call.path):
            return RelayedAnswer(call=call.call, status=404, body="this is not carried")
        if limit is None or call.size is None:
            return await self._door.ask(self._sandbox.sandbox_id, self._token, call, None)
        body_file = f"{RELAY_DIR}/{OUT_DIR}/{call.call}.body"
        try:
            body: bytes | Path | None
            if lane is Lane.ARTIFACTS:
                there = await self._files.save_file(self._sandbox.name, body_file, place, limit)
                body = place if there else None
            else:
                body = await self._files.fetch_file(self._sandbox.name, body_file, limit)
        except TooMuch as error:
            return RelayedAnswer(call=call.call, status=413, body=str(error))
        if body is None:
            return None
        size = await asyncio.to_thread(lambda: body.stat().st_size) if isinstance(body, Path) else len(body)
        if size != call.size:  # cut on its way: the app would refuse what is whole in the sandbox
            raise OSError(f"{size} bytes of {call.size}")
        return await self._door.ask(self._sandbox.sandbox_id, self._token, call, body)


def _failed(task: asyncio.Task[bool]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None or not task.result())
