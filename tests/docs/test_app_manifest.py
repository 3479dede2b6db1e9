"""app.yml is the only list of permissions and events, and says why for each."""

from __future__ import annotations

import re

import yaml

from app.domain.labels import LabelNames
from app.domain.triggers import Happening, Ignored, RepoFacts, decide_intent
from app.github.payloads import Parsed, parse_delivery
from tests.docs.markdown import ROOT

TEXT = (ROOT / "app.yml").read_text()
MANIFEST = yaml.safe_load(TEXT)
UNASKED = {"installation", "installation_repositories", "push"}
"""GitHub sends the first two to every App. A push tells nothing that `pull_request.synchronize` and the live look do
not, and would come for every push to every branch; it is understood where an operator subscribes to it.
"""
RECORDED = {
    folder.name: sorted(folder.glob("*.json"))
    for folder in (ROOT / "tests/payloads").iterdir()
    if folder.is_dir()
}
"""Bodies as GitHub sends them, by event: every event that is read has some."""
LABELS = LabelNames("agent", "agent:plan", "agent:quick", "agent:approved")


def asks_for_something(event: str) -> bool:
    """Whether any decision is made about the event, whatever it is."""
    happening = Happening(
        event, "edited", installation_id=1, repo=RepoFacts(1, "acme", "mathkit"), sender_id=1
    )
    intent = decide_intent(happening, LABELS, own_bot_id=None)
    return not (isinstance(intent, Ignored) and intent.reason == f"event {event} asks for nothing")


def test_every_permission_and_event_has_a_reason_beside_it() -> None:
    lines = TEXT.split("default_permissions:", 1)[1].splitlines()
    entries = [line for line in lines if re.match(r"  (- )?\w", line) and not line.strip().startswith("#")]
    assert len(entries) == len(MANIFEST["default_permissions"]) + len(MANIFEST["default_events"])
    assert [line for line in entries if not re.search(r" # \S.{10,}", line)] == []


def test_permissions_are_levels_that_github_knows() -> None:
    assert set(MANIFEST["default_permissions"].values()) <= {"read", "write"}


def test_every_event_that_decisions_are_made_about_is_subscribed_to() -> None:
    wanted = {event for event in RECORDED if asks_for_something(event)} - UNASKED
    assert {"issues", "pull_request", "check_run"} <= wanted
    assert wanted <= set(MANIFEST["default_events"])


def test_every_subscribed_event_is_one_that_we_can_read() -> None:
    for event in MANIFEST["default_events"]:
        for body in RECORDED[event]:
            parsed = parse_delivery(event, body.read_bytes())
            assert isinstance(parsed, Parsed), (body, parsed)
            assert parsed.detail is not None, body


def test_events_that_come_unasked_are_not_listed() -> None:
    assert set(MANIFEST["default_events"]) & UNASKED == set()


def test_registering_needs_addresses_of_ones_own() -> None:
    for url in (MANIFEST["url"], MANIFEST["hook_attributes"]["url"]):
        assert ".example/" in url
