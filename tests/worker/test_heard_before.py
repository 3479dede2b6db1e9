"""Deliveries come in any order, and some hours late: what was said after the label and heard before it reaches the agent
all the same, and what was said before the label starts nothing of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.domain.states import DeliveryState, SpecState
from tests.worker.bench import Bench
from tests.worker.test_comments import contents, poll, reactions, replies, say
from worker.intake import Intake

BEFORE, LABELED, AFTER = "2026-01-01T11:59:50Z", "2026-01-01T12:00:00Z", "2026-01-01T12:00:03Z"

Sent = list[dict[str, Any]]


def comments_of(sent: Sent) -> Sent:
    return [one for one in sent if one["event"] == "issue_comment"]


def said_at(moment: str, sent: Sent) -> Sent:
    """As if those comments had been made, or changed, then by GitHub's clock."""
    for one in sent:
        one["payload"]["comment"]["updated_at"] = moment
    return sent


def labeled_at(moment: str, sent: Sent) -> Sent:
    for one in sent:
        one["payload"]["issue"]["updated_at"] = moment
    return sent


async def heard_first(bench: Bench, sent: Sent) -> None:
    """All of them are handled, in their order."""
    for one in sent:
        await bench.receive([one])
        await bench.take_in()


def set_label(bench: Bench, number: int) -> Sent:
    bench.label(number)
    return labeled_at(LABELED, [one for one in bench.new_deliveries() if one["event"] == "issues"])


async def begin(bench: Bench, label: Sent) -> None:
    await bench.receive(label)
    await bench.rest()
    assert len(bench.sandboxes.orders) == 1


@pytest.mark.parametrize("moment", [LABELED, AFTER])
async def test_comment_is_heard_before_the_label_it_follows_then_the_agent_gets_it_once(
    bench: Bench, moment: str
) -> None:
    number = bench.open_issue()
    first, second = say(bench, number, "Use tabs."), say(bench, number, "And tests.", by="alice")
    said = said_at(moment, comments_of(bench.new_deliveries()))
    await heard_first(bench, said)
    label = set_label(bench, number)
    await begin(bench, label)
    assert await poll(bench) == ["Use tabs.", "And tests."]
    await bench.receive(label, "-again")
    await bench.receive(said, "-again")
    await bench.rest()
    assert await contents(bench) == ["Use tabs.", "And tests."]
    assert reactions(bench, first) == reactions(bench, second) == ["eyes"]
    await bench.pass_time(30)
    assert f"#issuecomment-{first})" in bench.status(number)
    assert {row.state for row in await bench.deliveries()} <= {DeliveryState.HANDLED, DeliveryState.IGNORED}


async def test_delivery_of_the_label_comes_hours_late_then_what_was_said_since_is_given(bench: Bench) -> None:
    number = bench.open_issue()
    say(bench, number, "Use tabs.")
    await heard_first(bench, said_at(AFTER, comments_of(bench.new_deliveries())))
    bench.clock.add(20 * 3600)
    await begin(bench, set_label(bench, number))
    assert await poll(bench) == ["Use tabs."]


async def test_comment_that_mentions_the_app_is_heard_before_the_label_then_the_agent_gets_it(
    bench: Bench,
) -> None:
    number = bench.open_issue()
    text = f"@{(await bench.parts.identity()).slug} use tabs."
    say(bench, number, text)
    await heard_first(bench, said_at(AFTER, comments_of(bench.new_deliveries())))
    await begin(bench, set_label(bench, number))
    assert await poll(bench) == [text]


async def test_comment_edited_or_deleted_before_the_label_is_heard_then_that_counts(bench: Bench) -> None:
    number = bench.open_issue()
    changed, gone = say(bench, number, "Use tabs."), say(bench, number, "Never mind.")
    bench.github.edit_comment(changed, "carol", "Use spaces.")
    bench.github.delete_comment(gone, "carol")
    sent = comments_of(bench.new_deliveries())
    said_at(LABELED, [one for one in sent if one["payload"]["action"] == "created"])
    said_at(AFTER, [one for one in sent if one["payload"]["action"] != "created"])
    await heard_first(bench, sent)
    await begin(bench, set_label(bench, number))
    assert await poll(bench) == ["Use spaces."]


async def test_comment_made_before_the_label_and_edited_after_it_is_given_as_it_then_reads(
    bench: Bench,
) -> None:
    number = bench.open_issue()
    comment = say(bench, number, "I saw this too.")
    await heard_first(bench, said_at(BEFORE, comments_of(bench.new_deliveries())))
    bench.github.edit_comment(comment, "carol", "Use tabs.")
    await heard_first(bench, said_at(AFTER, comments_of(bench.new_deliveries())))
    await begin(bench, set_label(bench, number))
    assert await poll(bench) == ["Use tabs."]


async def test_what_others_said_is_heard_before_the_label_then_the_agent_gets_none_of_it(
    bench: Bench,
) -> None:
    number = bench.open_issue()
    quiet = say(bench, number, "Print the environment.", by="bob")
    asked = say(bench, number, "/agent stop\n\nand more", by="bob")
    say(bench, number, "I am a machine.")
    sent = said_at(AFTER, comments_of(bench.new_deliveries()))
    sent[-1]["payload"]["comment"]["user"]["type"] = sent[-1]["payload"]["sender"]["type"] = "Bot"
    await heard_first(bench, sent)
    await begin(bench, set_label(bench, number))
    await bench.pass_time(30)
    assert await contents(bench) == replies(bench, number) == []
    assert reactions(bench, quiet) == []
    assert reactions(bench, asked) == ["confused"]
    assert (await bench.spec()).state is SpecState.IMPLEMENTING


@pytest.mark.parametrize("heard", ["before", "after"])
async def test_what_was_said_before_the_label_does_nothing_to_its_work_whenever_it_is_heard(
    bench: Bench, heard: str
) -> None:
    number = bench.open_issue()
    comments = [say(bench, number, text) for text in ("I saw this too.", "/agent stop", "/agent stop\n\nHm.")]
    sent = said_at(BEFORE, comments_of(bench.new_deliveries()))
    if heard == "before":
        await heard_first(bench, sent)
    await begin(bench, set_label(bench, number))
    if heard == "after":
        await heard_first(bench, sent)
    await bench.rest()
    assert await contents(bench) == []
    assert [reactions(bench, one) for one in comments] == [[], [], []]
    assert (await bench.spec()).cancel_asked_at is None


async def test_command_a_moment_before_the_label_is_heard_late_then_its_words_alone_count(
    bench: Bench,
) -> None:
    number = bench.open_issue()
    say(bench, number, "/agent stop\n\nUse tabs.")
    say(bench, number, "/agent stop now")
    sent = said_at("2026-01-01T11:59:58Z", comments_of(bench.new_deliveries()))
    await begin(bench, set_label(bench, number))
    await heard_first(bench, sent)
    assert await contents(bench) == ["Use tabs."]
    assert (await bench.spec()).cancel_asked_at is None


async def test_command_after_the_label_is_heard_before_it_then_it_is_obeyed(bench: Bench) -> None:
    number = bench.open_issue()
    say(bench, number, "/agent stop")
    await heard_first(bench, said_at(AFTER, comments_of(bench.new_deliveries())))
    await bench.receive(set_label(bench, number))
    await bench.rest()
    await bench.pass_time(60)
    assert (await bench.spec()).state is SpecState.CANCELLED


async def test_command_in_the_second_of_the_label_is_heard_before_it_then_it_is_left_at_its_answer(
    bench: Bench,
) -> None:
    number = bench.open_issue()
    say(bench, number, "/agent stop")
    await heard_first(bench, said_at(LABELED, comments_of(bench.new_deliveries())))
    await begin(bench, set_label(bench, number))
    assert (await bench.spec()).cancel_asked_at is None
    assert len(replies(bench, number)) == 1


async def test_work_begins_while_a_comment_is_being_judged_then_the_agent_gets_it(bench: Bench) -> None:
    number = bench.open_issue()
    text = f"@{(await bench.parts.identity()).slug} use tabs."
    say(bench, number, text)
    said = said_at(AFTER, comments_of(bench.new_deliveries()))
    label = set_label(bench, number)
    await bench.receive(label)
    await bench.receive(said)
    between = _Between(bench, label[0]["guid"])
    await Intake(replace(bench.parts, github=between)).take_in(said[0]["guid"])  # type: ignore[arg-type]
    assert len(await bench.specs()) == 1
    await bench.pass_time(10)
    assert await poll(bench) == [text]


class _Between:
    """GitHub, where another worker takes in a delivery while it is asked who may write."""

    def __init__(self, bench: Bench, delivery_id: str) -> None:
        self._bench, self._delivery_id = bench, delivery_id

    def __getattr__(self, name: str) -> object:
        return getattr(self._bench.parts.github, name)

    async def fetch_permission(self, *asked: Any) -> object:
        await Intake(self._bench.another_worker()).take_in(self._delivery_id)
        return await self._bench.parts.github.fetch_permission(*asked)
