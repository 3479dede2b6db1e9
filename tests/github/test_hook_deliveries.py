"""The listing of what GitHub sent to our webhook, and an issue's history."""

from __future__ import annotations

import pytest

from app.domain.errors import Unexpected
from app.domain.ids import IssueNumber
from app.domain.ports import HookDelivery
from app.github.answers import parse_time
from tests.github.conftest import Stage


async def whole_listing(stage: Stage) -> tuple[list[HookDelivery], int]:
    """All entries, and in how many pages they came."""
    found: list[HookDelivery] = []
    cursor, pages = None, 0
    while pages == 0 or cursor is not None:
        page = await stage.gateway.fetch_hook_deliveries(cursor)
        found += page.deliveries
        cursor, pages = page.next_cursor, pages + 1
    return found, pages


def settled(stage: Stage) -> None:
    stage.github.wait_for(lambda: stage.github.pending_deliveries() == 0, what="the end of every attempt")


async def test_more_than_a_page_then_all_come_once_newest_first(stage: Stage) -> None:
    for number in range(104):
        stage.github.open_issue(stage.name, "alice", f"Issue {number}")
    settled(stage)
    found, pages = await whole_listing(stage)
    ids = [one.delivery_id for one in found]
    assert pages == 2
    assert len(ids) >= 104
    assert ids == sorted(set(ids), reverse=True)
    assert {(one.succeeded, one.redelivery) for one in found} == {(False, False)}


async def test_asked_for_again_then_listed_once_more_under_the_same_guid(stage: Stage) -> None:
    stage.github.open_issue(stage.name, "alice", "An issue")
    settled(stage)
    [first, *_], _ = await whole_listing(stage)
    await stage.gateway.ensure_redelivered(first.delivery_id)
    settled(stage)
    [again, *_], _ = await whole_listing(stage)
    assert (again.guid, again.redelivery, again.delivery_id != first.delivery_id) == (first.guid, True, True)
    await stage.gateway.ensure_redelivered(1)  # no longer kept: let go


async def test_label_set_taken_off_and_set_again_then_the_last_time_counts(stage: Stage) -> None:
    number = IssueNumber(stage.github.open_issue(stage.name, "alice", "An issue")["number"])
    assert await stage.gateway.fetch_labeled_at(stage.repo, number, "Agent") is None
    moments = []
    for _ in range(2):
        stage.github.advance_clock(60)
        stage.github.add_labels(stage.name, number, "carol", "agent")
        moments.append(await stage.gateway.fetch_labeled_at(stage.repo, number, "Agent"))
        stage.github.remove_label(stage.name, number, "carol", "agent")
    first, second = moments
    assert first is not None
    assert second is not None
    assert 59 <= (second - first).total_seconds() <= 62
    assert await stage.gateway.fetch_labeled_at(stage.repo, number, "bug") is None


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-01", "2026-01-01T00:00:00", "\0"])
def test_time_that_is_none_is_an_unexpected_answer(text: str) -> None:
    with pytest.raises(Unexpected):
        parse_time(text)
