"""Issues, comments, labels, reactions: against the simulated GitHub, over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.domain.errors import Denied, Gone, RetryAt, Unexpected
from app.domain.ids import IssueNumber
from app.domain.labels import LabelNames
from tests.github.conftest import Stage

MARKER = "<!-- issuewright:spec=spec_1 part=status -->"
LABELS = LabelNames().definitions


def body(text: str) -> str:
    return f"{text}\n\n{MARKER}"


def new_issue(stage: Stage, **fields: Any) -> IssueNumber:
    return IssueNumber(int(stage.github.open_issue(stage.name, "carol", "A title", **fields)["number"]))


def comments(stage: Stage, number: int) -> list[dict[str, Any]]:
    return list(stage.github.issue(stage.name, number)["comment_list"])


async def test_issue_is_read_as_it_stands_now(stage: Stage) -> None:
    number = new_issue(stage, body="Please", labels=["agent"])
    found = await stage.gateway.fetch_issue(stage.repo, number)
    assert (found.number, found.title, found.body, found.state) == (number, "A title", "Please", "open")
    assert found.labels == ("agent",)
    assert found.author is not None
    assert found.author.login == "carol"


async def test_issue_not_readable_right_after_its_event_is_read_a_moment_later(stage: Stage) -> None:
    number = new_issue(stage)
    stage.github.add_fault(method="GET", path=f"/issues/{number}$", status=404, times=2)
    assert (await stage.gateway.fetch_issue(stage.repo, number)).title == "A title"


async def test_deleted_transferred_or_unknown_issue_is_gone(stage: Stage) -> None:
    other = await stage.add_repo(f"{stage.repo.name}-other", files={"a": "a"}, private=False)
    deleted, moved = new_issue(stage), new_issue(stage)
    stage.github.delete_issue(stage.name, deleted, "alice")
    stage.github.transfer_issue(stage.name, moved, "alice", other.full_name)
    for number in (deleted, moved, IssueNumber(999)):
        with pytest.raises(Gone):
            await stage.gateway.fetch_issue(stage.repo, number)


async def test_issue_closed_twice_is_one_write(stage: Stage) -> None:
    number = new_issue(stage)
    await stage.gateway.ensure_issue_closed(stage.repo, number)
    await stage.gateway.ensure_issue_closed(stage.repo, number)
    assert stage.github.issue(stage.name, number)["state"] == "closed"
    assert len(stage.writes()) == 1


async def test_comment_asked_for_twice_stays_one_and_is_edited(stage: Stage) -> None:
    number = new_issue(stage)
    first = await stage.gateway.ensure_comment(stage.repo, number, MARKER, body("one"), known_id=None)
    same = await stage.gateway.ensure_comment(stage.repo, number, MARKER, body("one"), known_id=None)
    edited = await stage.gateway.ensure_comment(
        stage.repo, number, MARKER, body("two"), known_id=first.comment_id
    )
    assert first.comment_id == same.comment_id == edited.comment_id
    assert [one["body"] for one in comments(stage, number)] == [body("two")]
    assert [one["method"] for one in stage.writes()] == ["POST", "PATCH"]


async def test_comment_applied_but_answered_502_is_found_again(stage: Stage) -> None:
    number = new_issue(stage)
    stage.github.add_fault(method="POST", path="/comments$", status=502, apply=True, times=1)
    with pytest.raises(RetryAt) as later:
        await stage.gateway.ensure_comment(stage.repo, number, MARKER, body("one"), known_id=None)
    assert later.value.scope == "call"
    await stage.gateway.ensure_comment(stage.repo, number, MARKER, body("two"), known_id=None)
    assert [one["body"] for one in comments(stage, number)] == [body("two")]


async def test_two_workers_commenting_at_once_leave_one_comment(stage: Stage) -> None:
    number = new_issue(stage)
    # Both look before either has written.
    stage.github.add_fault(method="POST", path="/comments$", delay_s=0.3, times=2)
    other = stage.another_gateway()
    made = await asyncio.gather(
        *(
            gateway.ensure_comment(stage.repo, number, MARKER, body("one"), known_id=None)
            for gateway in (stage.gateway, other)
        )
    )
    await other.aclose()
    left = comments(stage, number)
    assert len(left) == 1
    assert left[0]["id"] in {one.comment_id for one in made}
    again = await stage.gateway.ensure_comment(
        stage.repo, number, MARKER, body("two"), known_id=made[1].comment_id
    )
    assert again.comment_id == left[0]["id"]
    assert len(comments(stage, number)) == 1


async def test_marker_typed_by_somebody_else_is_not_taken_for_ours(stage: Stage) -> None:
    number = new_issue(stage)
    planted = stage.github.comment(stage.name, number, "bob", body("I am the status"))
    made = await stage.gateway.ensure_comment(stage.repo, number, MARKER, body("one"), known_id=planted["id"])
    assert made.comment_id != planted["id"]
    assert [one["body"] for one in comments(stage, number)] == [body("I am the status"), body("one")]


async def test_comment_behind_many_pages_is_found(stage: Stage) -> None:
    number = new_issue(stage)
    stage.github.fill_comments(stage.name, number, "bob", 250)
    made = await stage.gateway.ensure_comment(stage.repo, number, MARKER, body("one"), known_id=None)
    stage.github.fill_comments(stage.name, number, "bob", 250)
    found = await stage.gateway.ensure_comment(stage.repo, number, MARKER, body("one"), known_id=None)
    assert found.comment_id == made.comment_id


async def test_deleted_comment_is_made_anew(stage: Stage) -> None:
    number = new_issue(stage)
    made = await stage.gateway.ensure_comment(stage.repo, number, MARKER, body("one"), known_id=None)
    stage.github.delete_comment(made.comment_id, "alice")
    anew = await stage.gateway.ensure_comment(
        stage.repo, number, MARKER, body("one"), known_id=made.comment_id
    )
    assert anew.comment_id != made.comment_id


async def test_comment_longer_than_github_takes_is_refused_before_it_is_sent(stage: Stage) -> None:
    number = new_issue(stage)
    for text in ("x" * 65_537, "😀" * 33_000):
        with pytest.raises(Unexpected):
            await stage.gateway.ensure_comment(stage.repo, number, MARKER, body(text), known_id=None)
    assert stage.writes() == []


async def test_comment_on_a_locked_issue_is_denied_as_locked(stage: Stage) -> None:
    number = new_issue(stage)
    stage.github.lock_issue(stage.name, number, "alice")
    stage.github.add_fault(
        method="POST",
        path="/comments$",
        status=403,
        message="Unable to create comment because issue is locked.",
    )
    with pytest.raises(Denied) as denied:
        await stage.gateway.ensure_comment(stage.repo, number, MARKER, body("one"), known_id=None)
    assert denied.value.reason == "locked"


async def test_reaction_asked_for_twice_is_one(stage: Stage) -> None:
    number = new_issue(stage)
    comment = stage.github.comment(stage.name, number, "carol", "hello")
    for _ in range(2):
        await stage.gateway.ensure_reaction(stage.repo, comment["id"], "eyes")
    reactions = stage.github.get_comment(comment["id"])["reactions"]
    assert reactions["eyes"] == 1


async def test_labels_are_made_once_and_whatever_their_case(stage: Stage) -> None:
    stage.github.create_label(stage.name, "alice", "Agent:Quick")
    for _ in range(2):
        await stage.gateway.ensure_labels(stage.repo, LABELS)
    ours = sorted(name for name in stage.labels() if name.lower().startswith("agent"))
    assert ours == ["Agent:Quick", "agent", "agent:approved", "agent:plan"]
    assert len(stage.writes()) == 3


async def test_label_made_by_another_in_between_is_no_error(stage: Stage) -> None:
    stage.github.add_fault(method="GET", path="/labels", delay_s=0.3, times=2)
    other = stage.another_gateway()
    await asyncio.gather(
        *(gateway.ensure_labels(stage.repo, LABELS[:2]) for gateway in (stage.gateway, other))
    )
    await other.aclose()
    assert sorted(name for name in stage.labels() if name.startswith("agent")) == ["agent", "agent:plan"]


async def test_labels_of_an_archived_repository_are_denied_as_archived(stage: Stage) -> None:
    stage.github.archive_repo(stage.name, "alice")
    with pytest.raises(Denied) as denied:
        await stage.gateway.ensure_labels(stage.repo, LABELS)
    assert denied.value.reason == "archived"
