"""The link of a sandbox that can't reach the app: each call waits on disk until a worker has carried it there and back.

Same calls, same answers, same errors as over HTTP (see `link`); how the files stand to each other says `wire.relay`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from sandbox_payload.link import Link
from sandbox_payload.wire.relay import (
    IN_DIR,
    INDEX_FILE,
    OUT_DIR,
    RELAY_DIR,
    Lane,
    RelayedAnswer,
    RelayedCall,
    RelayIndex,
)

_LOOK_S = 0.05
_CARRY_S = 20.0
"""What carrying may add to the time that a call has over HTTP."""
_CARRY_ARTIFACT_S = 600.0


class FilesLink(Link):
    """`state` is the payload's state directory. What an earlier process left to be carried is dropped: its calls are
    made again.
    """

    def __init__(self, state: Path, sandbox_id: str) -> None:
        super().__init__("", sandbox_id, "")
        self._prefix = ""
        self._out = state / RELAY_DIR / OUT_DIR
        self._in = state / RELAY_DIR / IN_DIR
        shutil.rmtree(self._out, ignore_errors=True)
        for directory in (self._out, self._in):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._waiting: dict[Lane, RelayedCall] = {}
        self._index = threading.Lock()
        self._lanes = {lane: threading.Lock() for lane in Lane}

    def _exchange(
        self,
        method: str,
        target: str,
        body: bytes | IO[bytes] | None,
        headers: dict[str, str],
        timeout_s: float,
    ) -> tuple[int, bytes, str | None]:
        lane = _lane_of(target)
        with self._lanes[lane]:
            number = secrets.token_hex(8)
            body_file = self._out / f"{number}.body"
            try:
                size = None if body is None else _write_body(body_file, body)
                call = RelayedCall(
                    call=number, method=method, path=target, size=size, sha256=headers.get("X-Content-SHA256")
                )
                self._hand_out(lane, call)
                limit_s = timeout_s + (_CARRY_ARTIFACT_S if lane is Lane.ARTIFACTS else _CARRY_S)
                answer = self._await_answer(lane, number, limit_s)
            finally:
                self._hand_out(lane, None)
                with suppress(OSError):
                    body_file.unlink(missing_ok=True)
        return answer.status, answer.body.encode(), answer.retry_after

    def _hand_out(self, lane: Lane, call: RelayedCall | None) -> None:
        with self._index:
            if call is None:
                self._waiting.pop(lane, None)
            else:
                self._waiting[lane] = call
            temporary = self._out / f"{INDEX_FILE}.new"
            with suppress(OSError):  # a full disk: a call that nobody sees is made again
                temporary.write_text(RelayIndex(calls=self._waiting).model_dump_json())
                temporary.replace(self._out / INDEX_FILE)

    def _await_answer(self, lane: Lane, number: str, limit_s: float) -> RelayedAnswer:
        """Raises TimeoutError."""
        place = self._in / f"{lane.value}.json"
        deadline = time.monotonic() + limit_s
        seen = -1
        while time.monotonic() < deadline:
            with suppress(OSError, ValidationError, ValueError):
                changed = place.stat().st_mtime_ns
                if changed != seen:
                    answer = RelayedAnswer.model_validate_json(place.read_bytes())
                    if answer.call == number:
                        return answer
                    seen = changed
            time.sleep(_LOOK_S)
        raise TimeoutError("nobody carried it")


def _lane_of(target: str) -> Lane:
    if target.startswith("/events"):
        return Lane.EVENTS
    if target.startswith("/artifacts/"):
        return Lane.ARTIFACTS
    return Lane.ACKS if target.endswith("/ack") else Lane.MESSAGES


def _write_body(place: Path, body: bytes | IO[bytes]) -> int:
    with place.open("wb") as file:
        if isinstance(body, bytes):
            file.write(body)
        else:
            body.seek(0)
            shutil.copyfileobj(body, file)
        file.flush()
        return os.fstat(file.fileno()).st_size
