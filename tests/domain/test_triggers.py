"""What deliveries ask for, decided on GitHub's own examples and on anything made from them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from app.domain.labels import LabelNames
from app.domain.states import Flow
from app.domain.triggers import Cancel, Happening, Ignored, RepoFacts, Start, Welcome, decide_intent, is_label
from app.github.happening import to_happening
from app.github.payloads import Parsed, Unreadable, parse_delivery

BODIES = sorted((Path(__file__).parents[1] / "payloads").glob("*/*.json"))
OURS = LabelNames(quick="bug")
"""GitHub's example of a labeled issue has a label called so."""
BOT, APP = 4242, 99
LABELED = Happening(
    "issues", "labeled", 1, RepoFacts(7, "acme", "kit"), 11, "alice", "User", 3, label="agent:quick", label_id=5,
    issue_updated_at="2026-01-02T03:04:05Z",
)  # fmt: skip


def fields_of(value: object, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield (*above, name)
            yield from fields_of(inner, (*above, name))


def without(payload: dict[str, Any], path: tuple[str, ...], new_name: str | None) -> bytes:
    """The payload with one field taken out, or under another name."""
    changed = deepcopy(payload)
    inner = changed
    for name in path[:-1]:
        inner = inner[name]
    value = inner.pop(path[-1])
    if new_name is not None:
        inner[new_name] = value
    return json.dumps(changed).encode()


@pytest.mark.parametrize("path", BODIES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_any_field_missing_or_renamed_then_an_intent_or_a_reason(path: Path) -> None:
    payload = json.loads(path.read_bytes())
    whole = parse_delivery(path.parent.name, path.read_bytes())
    assert isinstance(whole, Parsed)
    expected = decide_intent(to_happening(whole), OURS, BOT, APP)
    passed_over: set[tuple[str, ...]] = set()
    for field in fields_of(payload):
        if any(field[:depth] in passed_over for depth in range(1, len(field))):
            continue  # nobody reads what is around it, whatever it is called
        for new_name in (None, f"{field[-1]}_new"):
            parsed = parse_delivery(path.parent.name, without(payload, field, new_name))
            if isinstance(parsed, Unreadable):
                assert parsed.reason, field
                continue
            if parsed == whole:
                passed_over.add(field)
                break
            intent = decide_intent(to_happening(parsed), OURS, BOT, APP)
            if isinstance(intent, Ignored):
                assert intent.reason, field
            else:
                # What is left may ask for less than the whole, never for something else.
                assert type(intent) is type(expected), field


def test_githubs_example_of_a_label_starts_only_for_a_label_that_is_ours() -> None:
    labeled = next(path for path in BODIES if path.name == "labeled.json").read_bytes()
    payload = json.loads(labeled)
    payload["installation"] = {"id": 1}
    parsed = parse_delivery("issues", json.dumps(payload).encode())
    assert isinstance(parsed, Parsed)
    assert isinstance(decide_intent(to_happening(parsed), OURS, BOT, APP), Start)
    assert isinstance(decide_intent(to_happening(parsed), LabelNames(), BOT, APP), Ignored)


@pytest.mark.parametrize(
    "action",
    [
        "opened", "edited", "reopened", "locked", "assigned", "unassigned", "pinned", "unpinned",
        "milestoned", "demilestoned", "typed", "untyped", "teleported", None,
    ],
)  # fmt: skip
def test_issue_that_carries_our_label_asks_for_nothing_by_anything_but_the_label_event(
    action: str | None,
) -> None:
    happening = replace(LABELED, action=action, issue_labels=("agent:quick",))
    assert isinstance(decide_intent(happening, LabelNames(), BOT), Ignored)


@pytest.mark.parametrize("label", ["bug", "agent:quicker", "xagent", "agent ", ""])
def test_other_label_on_an_issue_that_carries_ours_asks_for_nothing(label: str) -> None:
    happening = replace(LABELED, label=label, label_id=6, issue_labels=("agent:quick", label))
    assert decide_intent(happening, LabelNames(), BOT) == Ignored("another label was added")


@pytest.mark.parametrize(
    ("label", "flow"), [("agent", Flow.FULL), ("agent:plan", Flow.PLAN), ("AGENT:Quick", Flow.QUICK)]
)
def test_our_labels_in_any_case_ask_for_their_flow(label: str, flow: Flow) -> None:
    intent = decide_intent(replace(LABELED, label=label), LabelNames(), BOT)
    assert isinstance(intent, Start)
    assert (intent.flow, intent.labeled_at is not None) == (flow, True)


@pytest.mark.parametrize(
    ("event", "action"),
    [
        ("ping", None), ("github_app_authorization", "revoked"), ("push", None), ("issue_comment", "created"),
        ("installation_repositories", "added"), ("installation_repositories", "removed"), ("label", "deleted"),
        ("some_new_event", "labeled"),
    ],
)  # fmt: skip
def test_events_about_no_issue_start_nothing(event: str, action: str | None) -> None:
    intent = decide_intent(replace(LABELED, event=event, action=action), LabelNames(), BOT)
    assert not isinstance(intent, Start | Cancel)
    assert isinstance(intent, Welcome) == (action == "added")


@pytest.mark.parametrize("target", [None, APP, APP + 1])
def test_delivery_for_another_app_is_told_from_our_own(target: int | None) -> None:
    intent = decide_intent(replace(LABELED, target_app_id=target), LabelNames(), BOT, APP)
    assert isinstance(intent, Ignored) == (target == APP + 1)


def test_label_is_known_by_its_number_and_by_name_where_there_is_none() -> None:
    assert is_label(replace(LABELED, label="renamed"), 5, "agent:quick")
    assert not is_label(LABELED, 6, "agent:quick")
    assert is_label(replace(LABELED, label_id=None, label="Agent:Quick"), 5, "agent:quick")
    assert is_label(LABELED, None, "agent:quick")
    assert not is_label(replace(LABELED, label=None), None, "agent:quick")


TEXTS = st.text(max_size=30) | st.sampled_from(
    ["agent:quick", "labeled", "2026-01-02T03:04:05Z", "User", "Bot"]
)


@given(
    event=st.sampled_from(["issues", "pull_request", "check_run", "installation", "x"]),
    action=st.none() | TEXTS | st.sampled_from(["labeled", "unlabeled", "closed", "reopened", "rerequested"]),
    installation=st.none() | st.integers(0, 3), sender=st.none() | st.integers(0, 3), repo=st.booleans(),
    issue=st.none() | st.integers(0, 3), label=st.none() | TEXTS, updated=TEXTS, is_pull=st.booleans(),
)  # fmt: skip
def test_whatever_is_told_the_decision_is_the_same_twice_and_a_start_has_all_it_needs(
    event: str, action: str | None, installation: int | None, sender: int | None, repo: bool, issue: int | None,
    label: str | None, updated: str, is_pull: bool,
) -> None:  # fmt: skip
    happening = Happening(
        event, action, installation, RepoFacts(7, "acme", "kit") if repo else None, sender, issue_number=issue,
        label=label, issue_updated_at=updated, issue_is_pull=is_pull,
    )  # fmt: skip
    intent = decide_intent(happening, LabelNames(), 2, APP)
    assert intent == decide_intent(happening, LabelNames(), 2, APP)
    if isinstance(intent, Start):
        assert (event, action) == ("issues", "labeled")
        assert None not in (installation, sender, issue, label)
        assert repo
        assert not is_pull
        assert sender != 2, "our own bot"
