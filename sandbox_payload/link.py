"""The sandbox API as the sandbox sees it: one blocking call per route, safe to repeat, from any thread.

Raises NotAuthorized when the app says that this sandbox has ended, Refused for an answer that repeating can't change,
Unreachable for everything that may pass (no connection, time-out, 5xx, 429).
"""

from __future__ import annotations

import hashlib
import http.client
import json
import threading
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from sandbox_payload.wire import EventsReceipt, MessagesPage

_MAX_ANSWER_BYTES = 20_000_000


class LinkError(Exception):
    """A call to the app failed."""


class NotAuthorized(LinkError):
    """401 or 403: this sandbox has ended or is not known to the app."""


class Refused(LinkError):
    """The app refuses exactly this request."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail


class Unreachable(LinkError):
    """The app is away or busy; try again, not before `retry_after_s`."""

    def __init__(self, reason: str, retry_after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class Link:
    """`base_url` is the app's base URL as this sandbox reaches it; one kept connection per thread."""

    def __init__(self, base_url: str, sandbox_id: str, token: str) -> None:
        self._url = urlsplit(base_url)
        self._prefix = f"{self._url.path.rstrip('/')}/api/v1/sandboxes/{sandbox_id}"
        self._token = token
        self._kept = threading.local()

    def post_events(self, body: bytes) -> int:
        """Sends `{"events": [...]}`; the highest number that the app holds without a gap."""
        answer = self._call("POST", "/events", body=body, headers={"Content-Type": "application/json"})
        try:
            return EventsReceipt.model_validate_json(answer).last_seq
        except ValidationError as error:
            raise Unreachable(f"no receipt for events: {error.error_count()} errors") from error

    def fetch_messages(self, after: int, wait_s: float) -> MessagesPage:
        answer = self._call("GET", f"/messages?after={after}&wait={wait_s:g}", timeout_s=wait_s + 15)
        try:
            return MessagesPage.model_validate_json(answer)
        except ValidationError as error:
            raise Unreachable(f"no page of messages: {error.error_count()} errors") from error

    def acknowledge_message(self, message_id: str) -> None:
        self._call("POST", f"/messages/{message_id}/ack")

    def put_artifact(self, name: str, path: Path) -> str:
        """Uploads the file whole; its SHA-256 in hex."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
            file.seek(0)
            headers = {
                "Content-Type": "application/octet-stream",
                "Content-Length": str(size),
                "X-Content-SHA256": digest,
            }
            self._call("PUT", f"/artifacts/{name}", body=file, headers=headers, timeout_s=120)
        return digest

    def close(self) -> None:
        """Closes the calling thread's kept connection."""
        self._drop()

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: bytes | IO[bytes] | None = None,
        headers: dict[str, str] | None = None,
        timeout_s: float = 20,
    ) -> bytes:
        sent = {"Authorization": f"Bearer {self._token}", "Accept": "application/json", **(headers or {})}
        if body is None and method == "POST":
            sent["Content-Length"] = "0"
        fresh = getattr(self._kept, "connection", None) is None
        try:
            status, answer, retry_after = self._exchange(method, self._prefix + path, body, sent, timeout_s)
        except (http.client.HTTPException, OSError) as error:
            if fresh or isinstance(error, TimeoutError):
                raise Unreachable(f"{type(error).__name__}: {error}") from error
            # A kept connection that the app closed meanwhile says nothing about the app: once more on a new one.
            if body is not None and not isinstance(body, bytes):
                body.seek(0)
            return self._call(method, path, body=body, headers=headers, timeout_s=timeout_s)
        return _judged(status, answer, retry_after)

    def _exchange(
        self,
        method: str,
        target: str,
        body: bytes | IO[bytes] | None,
        headers: dict[str, str],
        timeout_s: float,
    ) -> tuple[int, bytes, str | None]:
        connection = self._connection()
        try:
            connection.timeout = timeout_s
            if connection.sock is not None:
                connection.sock.settimeout(timeout_s)
            connection.request(method, target, body=body, headers=headers)
            response = connection.getresponse()
            answer = response.read(_MAX_ANSWER_BYTES)
            if response.will_close or response.length:
                self._drop()
            return response.status, answer, response.getheader("Retry-After")
        except BaseException:
            self._drop()
            raise

    def _connection(self) -> http.client.HTTPConnection:
        kept: http.client.HTTPConnection | None = getattr(self._kept, "connection", None)
        if kept is None:
            kind = http.client.HTTPSConnection if self._url.scheme == "https" else http.client.HTTPConnection
            kept = self._kept.connection = kind(self._url.hostname or "", self._url.port)
        return kept

    def _drop(self) -> None:
        kept = getattr(self._kept, "connection", None)
        self._kept.connection = None
        if kept is not None:
            kept.close()


def _judged(status: int, answer: bytes, retry_after: str | None) -> bytes:
    """The body of a good answer; raises what any other answer means."""
    if 200 <= status < 300:
        return answer
    detail = _detail(answer)
    if status in (401, 403):
        raise NotAuthorized(f"{status}: {detail}")
    if status in (408, 425, 429) or status >= 500 or status < 200:
        asked = float(retry_after) if retry_after and retry_after.isdigit() else 0.0
        raise Unreachable(f"{status}: {detail}", min(asked, 60.0))
    raise Refused(status, detail)


def _detail(answer: bytes) -> str:
    text = answer[:2_000].decode(errors="replace")
    try:
        problem: Any = json.loads(text)
    except ValueError:
        return text[:300]
    if isinstance(problem, dict):
        return str(problem.get("detail") or problem.get("title") or text)[:300]
    return text[:300]
