"""`issuewright register` as a process, and the browser of the person who runs it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.cli.running import Issuewright, until
from tests.cli.warm import WarmProcess


class Registering:
    def __init__(self, process: WarmProcess, out: Path, err: Path) -> None:
        self.process = process
        self._out = out
        self._err = err

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    @property
    def page(self) -> str:
        """The address that was printed, once it was."""
        until(lambda: "http://" in self.err or self.process.poll() is not None, "no page")
        found = re.search(r"http://\S+", self.err)
        assert found is not None, self.err
        return found[0]

    def end(self) -> int:
        return self.process.wait(timeout=30)


@contextmanager
def registering(issuewright: Issuewright, *arguments: str, **changes: str | None) -> Iterator[Registering]:
    out, err = issuewright.home / "register.out", issuewright.home / "register.err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = issuewright.start("register", *arguments, outputs=(stdout, stderr), **changes)
    try:
        yield Registering(process, out, err)
    finally:
        process.kill()
        process.wait()


def agree(page: str) -> httpx.Response:
    """What a person's browser does: opens the page, presses the button, agrees at GitHub, and is sent back."""
    with httpx.Client(trust_env=False, timeout=20) as browser:
        action, manifest = form(browser.get(page).text)
        agreed = browser.post(action, data={"manifest": manifest})
        assert agreed.status_code == 302, agreed.text
        return browser.get(agreed.headers["location"])


def form(text: str) -> tuple[str, str]:
    """Where the page's form goes, and the manifest in it."""
    action = re.search(r'<form action="([^"]+)" method="post">', text)
    manifest = re.search(r'name="manifest" value="([^"]+)"', text)
    assert action is not None
    assert manifest is not None
    return html.unescape(action[1]), html.unescape(manifest[1])
