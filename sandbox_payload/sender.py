"""The thread that brings the spool to the app: in order, one batch in flight, nothing lost and nothing stuck."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable

from sandbox_payload.backoff import Backoff
from sandbox_payload.link import Link, NotAuthorized, Refused, Unreachable
from sandbox_payload.spool import Line, Spool

BATCH_BYTES = 500_000
BATCH_EVENTS = 200


class Sender:
    """Runs until `stop()`; calls `on_ended` (from its thread) once when the app says this sandbox has ended."""

    def __init__(self, spool: Spool, link: Link, on_ended: Callable[[], None]) -> None:
        self._spool = spool
        self._link = link
        self._on_ended = on_ended
        self._backoff = Backoff()
        self._stubs: dict[int, bytes] = {}
        self._batch_events = BATCH_EVENTS
        self._cursor = spool.acknowledged
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sender", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after the request in flight; does not wait for an app that is away."""
        self._stopped.set()
        self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                lines = self._spool.read_after(
                    self._cursor, max_bytes=BATCH_BYTES, max_events=self._batch_events
                )
            except OSError:  # the disk is full or failing; what is synced stays, the rest may come back
                self._stopped.wait(self._backoff.next_s())
                continue
            if not lines:
                self._spool.wait_beyond(self._cursor, 0.5)
                continue
            try:
                self._send(lines)
            except NotAuthorized:
                self._on_ended()
                break
        self._link.close()

    def _send(self, lines: list[Line]) -> None:
        body = b'{"events":[' + b",".join(self._stubs.get(line.seq, line.raw) for line in lines) + b"]}"
        try:
            last_seq = self._link.post_events(body)
        except Unreachable as error:
            self._stopped.wait(self._backoff.next_s(error.retry_after_s))
        except Refused as error:
            self._give_way(lines, error)
        else:
            self._note_receipt(last_seq)

    def _note_receipt(self, last_seq: int) -> None:
        """Goes on after what the app really holds, which may be less or more than what was just sent."""
        before = self._cursor
        self._spool.acknowledge(last_seq)
        self._cursor = min(last_seq, self._spool.last_seq)
        for seq in [seq for seq in self._stubs if seq <= last_seq]:
            del self._stubs[seq]
        if self._cursor > before:
            self._backoff.reset()
            self._batch_events = min(BATCH_EVENTS, self._batch_events * 2)
        else:
            self._stopped.wait(self._backoff.next_s())

    def _give_way(self, lines: list[Line], error: Refused) -> None:
        """A refused batch is halved; a single refused event is replaced by one that says so."""
        if error.status not in (400, 413, 422):
            self._stopped.wait(self._backoff.next_s())
        elif len(lines) > 1:
            self._batch_events = max(1, len(lines) // 2)
        elif lines[0].seq in self._stubs:
            self._stopped.wait(self._backoff.next_s())
        else:
            self._stubs[lines[0].seq] = _stub(lines[0], error)


def _stub(line: Line, error: Refused) -> bytes:
    event = json.loads(line.raw)
    event["event_data"] = {
        "refused": True,
        "status": error.status,
        "detail": error.detail,
        "original_type": event["event_type"],
        "original_bytes": len(line.raw),
    }
    event["event_type"] = "agent.error"
    return json.dumps(event).encode()
