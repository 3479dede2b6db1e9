"""A small git server over HTTP on 127.0.0.1: one token, repositories below one directory, and a few ways to fail."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

TOKEN = "ghs_" + "t0kEn" * 8


@dataclass
class GitServer:
    """`renamed` maps old to new repository names; `elsewhere` is where every request is redirected to;
    `status` answers everything; `lose_answer_to` drops the connection after a request of that kind was carried out."""

    root: Path
    url: str = ""
    renamed: dict[str, str] = field(default_factory=dict)
    elsewhere: str = ""
    status: int = 0
    lose_answer_to: str = ""
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def repository(self, name: str) -> str:
        return f"{self.url}/{name}"


@contextmanager
def serve(root: Path) -> Iterator[GitServer]:
    state = GitServer(root)
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(state))
    http.daemon_threads = True
    state.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield state
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def _handler(state: GitServer) -> type[BaseHTTPRequestHandler]:
    class GitEndpoint(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None: ...

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def _serve(self) -> None:
            body = self._body()
            state.requests.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
            parts = urlsplit(self.path)
            name = parts.path.split("/")[1]
            wanted = "Basic " + base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
            if state.status:
                self._answer(state.status, b"", [])
            elif state.elsewhere:
                self._answer(301, b"", [("Location", state.elsewhere + self.path)])
            elif name in state.renamed:
                self._answer(301, b"", [("Location", self.path.replace(name, state.renamed[name], 1))])
            elif self.headers.get("Authorization") != wanted:
                self._answer(401, b"", [("WWW-Authenticate", "Basic realm=git")])
            elif not (state.root / name).is_dir():
                self._answer(404, b"Repository not found", [])
            else:
                self._backend(parts.path, parts.query, body)

        def _backend(self, path: str, query: str, body: bytes) -> None:
            env = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(state.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_CONFIG_GLOBAL": "/dev/null",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REMOTE_USER": "app",
            }
            output = subprocess.run(
                ["git", "http-backend"], env=env, input=body, capture_output=True, check=True
            ).stdout
            if state.lose_answer_to and path.endswith(state.lose_answer_to):
                self.close_connection = True
                return
            head, _, content = output.partition(b"\r\n\r\n")
            status = 200
            headers = []
            for line in head.decode().split("\r\n"):
                key, _, value = line.partition(": ")
                if key == "Status":
                    status = int(value.split()[0])
                else:
                    headers.append((key, value))
            self._answer(status, content, headers)

        def _answer(self, status: int, content: bytes, headers: list[tuple[str, str]]) -> None:
            self.send_response(status)
            for key, value in headers:
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding", "") == "chunked":
                pieces = []
                while size := int(self.rfile.readline(), 16):
                    pieces.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(pieces)
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    return GitEndpoint
