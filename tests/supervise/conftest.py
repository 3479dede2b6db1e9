"""The worker's bench, and a webhook that listens only when a test says so."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.worker.bench import Bench
from tests.worker.conftest import bench, database_url, engine, simulated

__all__ = ["bench", "database_url", "engine", "simulated"]


@dataclass
class Webhook:
    """Answers GitHub with `status` and keeps the GUIDs of what it took in (202), in order, repeated ones too."""

    status: int = 202
    taken: list[str] = field(default_factory=list)


@pytest.fixture
def webhook(bench: Bench) -> Iterator[Webhook]:
    """The App's webhook from now on."""
    found = Webhook()

    class Endpoint(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            status = found.status
            if status == 202:
                found.taken.append(self.headers["x-github-delivery"])
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    bench.github.update_app(bench.app_id, webhook_url=f"http://127.0.0.1:{server.server_port}/")
    yield found
    server.shutdown()
    server.server_close()
    thread.join()
