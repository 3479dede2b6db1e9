"""The small web server of `issuewright register`: one page that posts the manifest, one address GitHub returns to.

Both addresses hold a random part that only the terminal and GitHub are told, so that no other local user and no web
site can finish (or read) somebody's registration.
"""

from __future__ import annotations

import hmac
import html
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast
from urllib.parse import parse_qs, urlsplit

from app.domain.errors import IssuewrightError

CALLBACK = "/callback"
_SLOW_CLIENT_S = 10.0
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:38em;margin:4em auto;padding:0 1em}"
    "button{font:inherit;padding:.5em 1.5em}code{background:#eee;padding:0 .3em}"
)


@dataclass(frozen=True)
class Offer:
    """What the page posts to GitHub. `manifest` is JSON, `form_url` carries `state`."""

    form_url: str
    manifest: str
    webhook_url: str


Take = Callable[[str], str]
"""Exchanges a code and stores what it gives; returns a sentence for the page. Raises IssuewrightError."""


class RegistrationServer(ThreadingHTTPServer):
    """Serves one registration. Browsers open connections they don't use: hence threads."""

    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Visit)
        self.state = secrets.token_urlsafe(24)
        self._entry = f"/{secrets.token_urlsafe(12)}"
        self._offer: Offer | None = None
        self._take: Take | None = None
        self._taking = threading.Lock()
        self._said: str | None = None
        self.problem: IssuewrightError | None = None
        self.ended = threading.Event()
        self.closed = False

    @property
    def base_url(self) -> str:
        """As a browser on this machine reaches it, also when it listens on all addresses."""
        host, port = cast("tuple[str, int]", self.server_address[:2])
        shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
        return f"http://{shown}:{port}"

    @property
    def entry_url(self) -> str:
        return self.base_url + self._entry

    @contextmanager
    def serving(self, offer: Offer, take: Take) -> Iterator[None]:
        """Answers browsers until the block ends. `ended` is set once GitHub's code was taken, or could not be."""
        self._offer, self._take = offer, take
        thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
        thread.start()
        try:
            yield
        finally:
            # Under the lock: a code that is being exchanged right now is finished first, never half taken.
            with self._taking:
                self.closed = True
            self.shutdown()
            thread.join()

    def page_for(self, target: str) -> tuple[int, str]:
        """Status and HTML for a request's target."""
        parts = urlsplit(target)
        if self._offer is not None and hmac.compare_digest(parts.path.encode(), self._entry.encode()):
            return 200, _form(self._offer)
        if parts.path != CALLBACK:
            return 404, _page("Not found", "<p>There is nothing here.</p>")
        query = parse_qs(parts.query)
        if not hmac.compare_digest(query.get("state", [""])[0].encode(), self.state.encode()):
            return 400, _page(
                "Not this registration",
                "<p>This answer belongs to another registration. Open the page that the terminal shows.</p>",
            )
        return self._finish(query.get("code", [""])[0])

    def _finish(self, code: str) -> tuple[int, str]:
        """Takes the code, once; whoever comes again sees how it ended."""
        with self._taking:
            if self._said is None and self.problem is None:
                if self.closed or self._take is None:
                    return 410, _page("Stopped", "<p>The command was stopped; run it again.</p>")
                try:
                    self._said = self._take(code)
                except IssuewrightError as error:
                    self.problem = error
        if self._said is None:
            return 502, _page("It did not work", f"<p>{html.escape(str(self.problem))}</p>")
        return 200, _page("Registered", f"<p>{html.escape(self._said)}</p><p>You can close this page.</p>")


class _Visit(BaseHTTPRequestHandler):
    timeout = _SLOW_CLIENT_S
    server_version = "issuewright"
    sys_version = ""

    def do_GET(self) -> None:
        server = cast("RegistrationServer", self.server)
        status, text = server.page_for(self.path)
        body = text.encode()
        self.send_response(status)
        for name, value in (
            ("Content-Type", "text/html; charset=utf-8"),
            ("Content-Length", str(len(body))),
            (
                "Content-Security-Policy",
                "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
            ),
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        if status in {200, 502} and urlsplit(self.path).path == CALLBACK:
            server.ended.set()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Nothing: request lines hold the code."""


def _form(offer: Offer) -> str:
    host = html.escape(urlsplit(offer.form_url).netloc)
    return _page(
        "Register the GitHub App",
        f"<p>Sign in at <b>{host}</b> first, then go on. GitHub shows the App's name, permissions and events, and "
        "creates it when you agree.</p>"
        f"<p>Webhooks will go to <code>{html.escape(offer.webhook_url)}</code></p>"
        f'<form action="{html.escape(offer.form_url)}" method="post">'
        f'<input type="hidden" name="manifest" value="{html.escape(offer.manifest)}">'
        f"<button>Continue at {host}</button></form>",
    )


def _page(title: str, content: str) -> str:
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title} – Issuewright</title>'
        f"<style>{_STYLE}</style><h1>{title}</h1>{content}</html>"
    )
