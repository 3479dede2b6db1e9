"""How far a call goes: over all pages, after a moved repository, never to another host, never beyond its time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from app.domain.errors import RetryAt, Unexpected
from app.domain.ids import IssueNumber
from app.github.gateway import GitHubGateway
from tests.github.conftest import OpenPace, Stage

MARKER = "<!-- issuewright:spec=spec_1 part=status -->"
LABELS = (("agent", "5319e7", "Plans and builds"), ("zebra", "1d76db", "Sorts last"))


@pytest.fixture
def stranger() -> Iterator[tuple[str, list[str]]]:
    """Another host: its address, and the request lines with their authorization as they came in."""
    heard: list[str] = []

    class Ear(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(f"{self.path} {self.headers.get('authorization')}")
            self.send_response(200)
            self.end_headers()

        do_POST = do_PATCH = do_GET  # noqa: N815 - the names that http.server calls

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Ear)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", heard
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirect_to_a_live_stranger_is_refused_and_the_stranger_hears_nothing(
    stage: Stage, stranger: tuple[str, list[str]], status: int
) -> None:
    url, heard = stranger
    stage.github.add_fault(
        path=f"/repos/{stage.name}", status=status, headers={"Location": f"{url}/repositories/1"}
    )
    with pytest.raises(Unexpected):
        await stage.gateway.fetch_repository(stage.repo)
    with pytest.raises(Unexpected):
        await stage.gateway.ensure_reaction(stage.repo, 1, "eyes")
    assert heard == []


async def test_next_page_on_another_host_is_not_asked_for(
    stage: Stage, stranger: tuple[str, list[str]]
) -> None:
    url, heard = stranger
    stage.github.add_fault(
        method="GET", path="/labels$", status=200, headers={"Link": f'<{url}/labels?page=2>; rel="next"'}
    )
    with pytest.raises(Unexpected):
        await stage.gateway.ensure_labels(stage.repo, LABELS)
    assert heard == []


async def test_comment_behind_three_thousand_others_is_found_within_the_pages_it_takes(stage: Stage) -> None:
    number = IssueNumber(int(stage.github.open_issue(stage.name, "carol", "Busy")["number"]))
    stage.github.fill_comments(stage.name, number, "bob", 2950)
    text = f"{MARKER}\nhere"
    made = await stage.gateway.ensure_comment(stage.repo, number, MARKER, text, known_id=None)
    stage.github.fill_comments(stage.name, number, "bob", 50)
    before = len(stage.requests())
    found = await stage.gateway.ensure_comment(stage.repo, number, MARKER, text, known_id=None)
    assert found.comment_id == made.comment_id
    assert len(stage.requests()) - before == 31


async def test_label_behind_three_hundred_others_is_not_made_again(stage: Stage) -> None:
    for count in range(300):
        stage.github.create_label(stage.name, "alice", f"label {count:03}")
    stage.github.create_label(stage.name, "alice", "Zebra")
    await stage.gateway.ensure_labels(stage.repo, LABELS)
    assert [one["body"]["name"] for one in stage.writes()] == ["agent"]


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_silent_github_is_given_up_within_the_calls_time(stage: Stage, method: str) -> None:
    await stage.gateway.fetch_repository(stage.repo)
    hasty = GitHubGateway(
        replace(stage.access, patience_s=0.6), stage.clock, OpenPace(stage.clock), stage.calls.append
    )
    stage.github.add_fault(method=method, path=f"/repos/{stage.name}", delay_s=4)
    started = time.monotonic()
    with pytest.raises(RetryAt) as later:
        await hasty.ensure_labels(stage.repo, LABELS)
    assert time.monotonic() - started < 2
    assert later.value.scope == "call"
    await hasty.aclose()


def test_call_ends_well_before_its_step_does(stage: Stage) -> None:
    from worker.engine import STEP_LIMIT_S

    assert stage.access.patience_s * 2 < STEP_LIMIT_S
