"""Webhook bodies: GitHub's own examples parse, and nothing that is thrown at the parser makes it raise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from app.domain.triggers import RepoFacts
from app.github.events import (
    CheckRunEvent,
    InstallationRepositoriesEvent,
    IssueCommentEvent,
    IssueEvent,
    PullEvent,
    ReviewCommentEvent,
)
from app.github.happening import to_happening
from app.github.payloads import Parsed, Unreadable, parse_delivery

FOLDER = Path(__file__).parent.parent / "payloads"
BODIES = sorted(FOLDER.glob("*/*.json"))


def names(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def parse(name: str) -> Parsed:
    parsed = parse_delivery(name.split("/", maxsplit=1)[0], (FOLDER / name).read_bytes())
    assert isinstance(parsed, Parsed), parsed
    return parsed


def load(name: str) -> dict[str, Any]:
    return dict(json.loads((FOLDER / name).read_bytes()))


def parse_object(event: str, payload: object) -> Parsed | Unreadable:
    return parse_delivery(event, json.dumps(payload).encode())


@pytest.mark.parametrize("path", BODIES, ids=names)
def test_githubs_example_parses_with_its_own_part(path: Path) -> None:
    parsed = parse(names(path))
    assert parsed.detail is not None
    assert parsed.sender is not None
    to_happening(parsed)


@pytest.mark.skipif("ISSUEWRIGHT_TEST_PAYLOADS" not in os.environ, reason="no larger collection named")
def test_every_example_of_a_larger_collection_parses() -> None:
    folder = Path(os.environ["ISSUEWRIGHT_TEST_PAYLOADS"])
    paths = sorted(folder.glob("*/*.json"))
    unreadable = {
        names(path): result
        for path in paths
        if isinstance(result := parse_delivery(path.parent.name, path.read_bytes()), Unreadable)
    }
    assert paths
    assert unreadable == {}


def test_labeled_issue_says_who_which_label_and_where() -> None:
    parsed = parse("issues/labeled.json")
    raw = load("issues/labeled.json")
    assert isinstance(parsed.detail, IssueEvent)
    assert parsed.detail.label is not None
    assert parsed.detail.label.name == raw["label"]["name"]
    assert parsed.repo is not None
    assert parsed.repo.id == raw["repository"]["id"]
    assert parsed.sender is not None
    assert parsed.sender.id == raw["sender"]["id"]
    happening = to_happening(parsed)
    assert (happening.label, happening.issue_number) == (raw["label"]["name"], raw["issue"]["number"])
    assert happening.repo == RepoFacts(
        raw["repository"]["id"],
        raw["repository"]["owner"]["login"],
        raw["repository"]["name"],
        raw["repository"]["default_branch"],
        raw["repository"]["private"],
    )
    assert happening.issue_labels == tuple(label["name"] for label in raw["issue"]["labels"])


def test_merged_pull_request_button_and_new_repository_are_told() -> None:
    assert to_happening(parse("pull_request/closed.merged.derived.json")).pull_merged
    check = parse("check_run/requested_action.json")
    assert isinstance(check.detail, CheckRunEvent)
    assert (
        to_happening(check).requested_action
        == load("check_run/requested_action.json")["requested_action"]["identifier"]
    )
    added = parse("installation_repositories/added.json")
    assert isinstance(added.detail, InstallationRepositoriesEvent)
    [repo] = to_happening(added).repositories
    # These events show repositories without an owner.
    assert (repo.owner, repo.name) == ("Codertocat", "Space")


def test_comment_on_a_pull_request_is_told_from_one_on_an_issue() -> None:
    payload = load("issue_comment/created.with-installation.json")
    payload["issue"].pop("pull_request", None)
    on_issue = parse_object("issue_comment", payload)
    payload["issue"]["pull_request"] = {"html_url": "https://github.com/o/r/pull/1"}
    on_pull = parse_object("issue_comment", payload)
    assert isinstance(on_issue, Parsed)
    assert isinstance(on_pull, Parsed)
    assert not to_happening(on_issue).issue_is_pull
    assert to_happening(on_pull).issue_is_pull


def test_deleted_people_forks_and_outdated_lines_are_null_and_fine() -> None:
    comment = load("issue_comment/created.with-installation.json")
    comment["comment"]["user"] = comment["issue"]["user"] = comment["sender"] = None
    parsed = parse_object("issue_comment", comment)
    assert isinstance(parsed, Parsed)
    assert parsed.sender is None
    assert isinstance(parsed.detail, IssueCommentEvent)
    assert parsed.detail.comment.user is None
    pull = load("pull_request/synchronize.json")
    pull["pull_request"]["head"]["repo"] = pull["pull_request"]["body"] = None
    parsed = parse_object("pull_request", pull)
    assert isinstance(parsed, Parsed)
    assert isinstance(parsed.detail, PullEvent)
    assert parsed.detail.pull_request.head.repo is None
    line = load("pull_request_review_comment/created.json")
    line["comment"]["position"] = line["comment"]["line"] = None
    parsed = parse_object("pull_request_review_comment", line)
    assert isinstance(parsed, Parsed)
    assert isinstance(parsed.detail, ReviewCommentEvent)
    assert parsed.detail.comment.position is None


@pytest.mark.parametrize("event", ["some_new_event", "star", "workflow_job"])
def test_unknown_event_has_its_common_fields_and_no_detail(event: str) -> None:
    parsed = parse_object(event, load("issues/labeled.json"))
    assert isinstance(parsed, Parsed)
    assert parsed.detail is None
    assert parsed.repo is not None


def test_unknown_action_of_a_known_event_has_no_detail() -> None:
    parsed = parse_object("issues", {"action": "teleported", "issue": 5})
    assert isinstance(parsed, Parsed)
    assert (parsed.action, parsed.detail) == ("teleported", None)


NEEDED = [
    ("issues/labeled.json", ("issue",)),
    ("issues/labeled.json", ("issue", "number")),
    ("issues/labeled.json", ("issue", "user")),
    ("issues/labeled.json", ("sender", "id")),
    ("issues/labeled.json", ("repository", "id")),
    ("issues/labeled.json", ("label", "name")),
    ("issue_comment/created.with-installation.json", ("comment", "id")),
    ("issue_comment/created.with-installation.json", ("installation", "id")),
    ("pull_request/synchronize.json", ("pull_request", "head", "sha")),
    ("check_run/requested_action.json", ("check_run", "head_sha")),
    ("push/with-installation.json", ("after",)),
]


@pytest.mark.parametrize(("name", "path"), NEEDED, ids=str)
def test_needed_field_missing_renamed_or_of_another_type_is_unreadable_with_its_name(
    name: str, path: tuple[str, ...]
) -> None:
    event = name.split("/", maxsplit=1)[0]
    for change in ("missing", "renamed", "wrong"):
        payload = load(name)
        inner = payload
        for key in path[:-1]:
            inner = inner[key]
        value = inner.pop(path[-1])
        if change == "renamed":
            inner[f"{path[-1]}_2"] = value
        if change == "wrong":
            inner[path[-1]] = [["no", "thing"]]
        result = parse_object(event, payload)
        assert isinstance(result, Unreadable), (change, result)
        assert path[-1] in result.reason


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b"\xff\xfe{\x00}\x00",
        b"\xef\xbb\xbf{}",
        b'{"action": NaN}',
        b'{"action": "\\ud800"}',
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'{"sender": {"login": "a", "id": ' + b"9" * 5_000 + b"}}",
        b'{"sender": {"login": "a", "id": 1e400}}',
        b"payload=%7B%7D",
    ],
    ids=range(13),
)
def test_body_that_is_no_delivery_is_unreadable(body: bytes) -> None:
    assert isinstance(parse_delivery("issues", body), Unreadable)


def test_reason_never_quotes_what_somebody_wrote() -> None:
    payload = load("issues/labeled.json")
    payload["issue"]["number"] = "SECRET-TEXT"
    result = parse_object("issues", payload)
    assert isinstance(result, Unreadable)
    assert "SECRET" not in result.reason


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150)
@given(
    name=st.sampled_from([names(path) for path in BODIES]),
    value=JSON,
    where=st.lists(st.integers(0, 200), min_size=1, max_size=4),
)
def test_any_field_replaced_by_anything_never_raises(name: str, value: object, where: list[int]) -> None:
    payload: Any = load(name)
    inner = payload
    for index in where[:-1]:
        keys = sorted(inner)
        child = inner[keys[index % len(keys)]]
        if not isinstance(child, dict) or not child:
            break
        inner = child
    keys = sorted(inner)
    inner[keys[where[-1] % len(keys)]] = value
    body = json.dumps(payload).encode("utf-8", "surrogatepass")
    result = parse_delivery(name.split("/", maxsplit=1)[0], body)
    if isinstance(result, Parsed):
        to_happening(result)


@settings(max_examples=100)
@given(event=st.sampled_from(["issues", "push", "ping", "x"]), body=st.binary(max_size=200))
def test_any_bytes_never_raise(event: str, body: bytes) -> None:
    parse_delivery(event, body)


def test_parsing_is_quick() -> None:
    body = (FOLDER / "pull_request/synchronize.json").read_bytes()
    parse_delivery("pull_request", body)
    times = []
    for _ in range(50):
        started = time.perf_counter()
        parse_delivery("pull_request", body)
        times.append(time.perf_counter() - started)
    assert min(times) < 0.002


def test_parser_loads_without_any_client_library() -> None:
    code = "import sys, app.github.payloads, app.github.happening; print(sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "'pydantic'" in loaded
    for heavy in ("githubkit", "httpx", "githubkit_schemas", "jwt"):
        assert f"'{heavy}'" not in loaded


def test_gateway_loads_without_githubkit() -> None:
    code = "import sys, app.github.gateway; print('githubkit' in sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "False"
