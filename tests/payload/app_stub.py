"""A test double of the sandbox API: the HTTP contract over plain lists, failing on command."""

from __future__ import annotations

import hashlib
import json
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "sandbox-token-for-tests"
SANDBOX_ID = "sbx-1"


@dataclass
class Fault:
    """Answers of one route (a part of "METHOD path") that go wrong for `times` requests."""

    route: str
    status: int = 502
    times: int = 1
    after_storing: bool = False
    """The work is done, but the client never hears (the connection is closed without an answer)."""
    when: Callable[[bytes], bool] = lambda _body: True


@dataclass
class AppStub:
    token: str = TOKEN
    events: dict[int, dict[str, Any]] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    artifacts: dict[str, bytes] = field(default_factory=dict)
    uploads: list[tuple[str, bytes]] = field(default_factory=list)
    posts: list[tuple[int, ...]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    polled_after: int = 0
    """The highest message the sandbox has said it has read."""
    ended: bool = False
    away: bool = True

    def __post_init__(self) -> None:
        self.changed = threading.Condition()
        self._server: ThreadingHTTPServer | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listens, on the same port as before when it was stopped."""
        stub = self

        class Requests(_Requests):
            app = stub

        self.away = False
        self._server = _Server(("127.0.0.1", self.port), Requests)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        self.away = True
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def send(self, content: str, message_type: str = "user_message") -> str:
        with self.changed:
            message = {
                "id": str(uuid.uuid4()),
                "seq": len(self.messages) + 1,
                "message_type": message_type,
                "content": content,
                "created_at": datetime.now(UTC).isoformat(),
            }
            self.messages.append(message)
            self.changed.notify_all()
            return str(message["id"])

    def wait(self, condition: Callable[[], Any], timeout_s: float = 20) -> Any:
        """The first true value of `condition`; fails the test after `timeout_s`."""
        with self.changed:
            assert self.changed.wait_for(condition, timeout_s), f"not seen; events: {self.types()}"
            return condition()

    def types(self) -> list[str]:
        return [event["event_type"] for _, event in sorted(self.events.items())]

    def of(self, event_type: str) -> list[dict[str, Any]]:
        """The data of all events of one type, in order."""
        found = [event for _, event in sorted(self.events.items()) if event["event_type"] == event_type]
        return [event["event_data"] for event in found]

    @property
    def last_seq(self) -> int:
        seq = 0
        while seq + 1 in self.events:
            seq += 1
        return seq

    @property
    def manifest(self) -> dict[str, Any]:
        return dict(json.loads(self.artifacts["manifest.json"]))

    def fault_for(self, route: str, body: bytes) -> Fault | None:
        with self.changed:
            for fault in self.faults:
                if fault.route in route and fault.times > 0 and fault.when(body):
                    fault.times -= 1
                    return fault
        return None

    def act(
        self, method: str, path: str, query: dict[str, list[str]], body: bytes, digest: str
    ) -> tuple[int, Any]:
        with self.changed:
            try:
                return self._act(method, path, query, body, digest)
            finally:
                self.changed.notify_all()

    def _act(
        self, method: str, path: str, query: dict[str, list[str]], body: bytes, digest: str
    ) -> tuple[int, Any]:
        if path == "/events":
            batch = json.loads(body)["events"]
            self.posts.append(tuple(event["seq"] for event in batch))
            for event in batch:
                self.events.setdefault(event["seq"], event)
            return 200, {"status": "received", "last_seq": self.last_seq}
        if path == "/messages":
            after, wait = int(query["after"][0]), float(query["wait"][0])
            self.polled_after = max(self.polled_after, after)
            self.changed.notify_all()

            def later() -> list[dict[str, Any]]:
                return [message for message in self.messages if message["seq"] > after]

            self.changed.wait_for(lambda: later() or self.ended, min(wait, 2))
            found = later()
            return 200, {"messages": found, "last_seq": found[-1]["seq"] if found else after}
        if path.endswith("/ack"):
            self.acknowledged.append(path.split("/")[2])
            return 200, {"id": path.split("/")[2], "state": "acknowledged"}
        name = path.removeprefix("/artifacts/")
        if hashlib.sha256(body).hexdigest() != digest:
            return 422, {"title": "wrong hash"}
        self.artifacts[name] = body
        self.uploads.append((name, body))
        return 204, None


class _Server(ThreadingHTTPServer):
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that are killed in the middle of a request are what these tests are about."""


class _Requests(BaseHTTPRequestHandler):
    app: AppStub
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        app, parts = self.app, urlsplit(self.path)
        prefix = f"/api/v1/sandboxes/{SANDBOX_ID}"
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Authorization") != f"Bearer {app.token}" or not parts.path.startswith(prefix):
            self._answer(401, {"title": "unknown token"})
            return
        if app.ended:
            self._answer(403, {"title": "this sandbox has ended"})
            return
        if app.away:
            self.close_connection = True
            return
        path = parts.path.removeprefix(prefix)
        fault = app.fault_for(f"{self.command} {path}", body)
        if fault is not None and not fault.after_storing:
            self._answer(fault.status, {"title": "as told", "detail": "a fault on command"})
            return
        digest = self.headers.get("X-Content-SHA256", "")
        status, answer = app.act(self.command, path, parse_qs(parts.query), body, digest)
        if fault is not None:
            self.close_connection = True
            return
        self._answer(status, answer)

    do_GET = do_POST = do_PUT = _serve  # noqa: N815

    def _answer(self, status: int, answer: Any) -> None:
        raw = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if status != 204:
            self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_arguments: Any) -> None:
        """Tests say themselves what they saw."""
