"""The thread that asks the app for messages, for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sandbox_payload.backoff import Backoff
from sandbox_payload.link import Link, LinkError, NotAuthorized, Unreachable
from sandbox_payload.wire import MAX_WAIT_S, Message


class Inbox:
    """Calls `on_message` for each message in order of seq, and `on_ended` once when the app says this sandbox ended.

    Both are called from the inbox's thread. After a restart everything is read again; whoever takes it knows what is new.
    """

    def __init__(
        self, link: Link, on_message: Callable[[Message], None], on_ended: Callable[[], None]
    ) -> None:
        self._link = link
        self._on_message = on_message
        self._on_ended = on_ended
        self._after = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="inbox", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        backoff = Backoff()
        while not self._stopped.is_set():
            try:
                page = self._link.fetch_messages(self._after, MAX_WAIT_S)
            except NotAuthorized:
                self._on_ended()
                break
            except LinkError as error:
                asked_s = error.retry_after_s if isinstance(error, Unreachable) else 0.0
                self._stopped.wait(backoff.next_s(asked_s))
                continue
            backoff.reset()
            for message in sorted(page.messages, key=lambda found: found.seq):
                if message.seq > self._after and not self._stopped.is_set():
                    self._after = message.seq
                    self._on_message(message)
        self._link.close()
