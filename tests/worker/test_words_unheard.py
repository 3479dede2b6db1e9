"""Comments and reviews whose delivery GitHub never made, or can't make again: a look at the issue finds them."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.states import SpecState
from tests.worker.bench import Bench
from tests.worker.test_comments import contents, reactions, say
from tests.worker.test_life import start
from tests.worker.test_reviews import ready, review, single
from worker.supervise.live_look import LiveLook

LATER_S = 700

Sent = list[dict[str, Any]]


def lost(bench: Bench) -> Sent:
    """What GitHub sends now does not arrive; it may still be given to `late`."""
    return bench.new_deliveries()


def catch_up(bench: Bench) -> None:
    """Our clock stands where GitHub's does, which earlier tests have moved."""
    ahead_s = float(bench.github.advance_clock(0)["offset_s"])
    bench.clock.add(max(0.0, ahead_s - bench.clock.ahead.total_seconds()))


async def look(bench: Bench, looking: LiveLook | None = None) -> int:
    """Long enough after the last one and after what was said; whatever was found is dealt with."""
    catch_up(bench)
    bench.clock.add(LATER_S)
    found = await (looking or LiveLook(bench.parts)).look()
    await bench.rest(listen=False)
    await bench.pass_time(30)
    return found


async def late(bench: Bench, sent: Sent) -> None:
    for suffix in ("", "-again"):
        await bench.receive(sent, suffix)
        await bench.rest(listen=False)
    await bench.pass_time(30)


async def test_comment_without_a_delivery_then_the_agent_gets_it_once_also_when_it_comes_late(
    bench: Bench,
) -> None:
    number = await start(bench)
    comment = say(bench, number, "Use tabs.")
    sent = lost(bench)
    assert await look(bench) == 1
    assert await contents(bench) == ["Use tabs."]
    assert reactions(bench, comment) == ["eyes"]
    await late(bench, sent)
    assert await look(bench) == 0
    assert await contents(bench) == ["Use tabs."]
    assert reactions(bench, comment) == ["eyes"]


async def test_comment_on_the_pull_request_and_a_command_are_found_as_well(bench: Bench) -> None:
    number = await start(bench)
    say(bench, int(bench.github.pulls(bench.name)[0]["number"]), "Use tabs.")
    say(bench, number, "/agent pause")
    lost(bench)
    assert await look(bench) == 2
    assert await contents(bench) == ["Use tabs."]
    assert (await bench.spec()).state is SpecState.PAUSED


async def test_comment_that_was_heard_is_not_found_again_by_any_worker(bench: Bench) -> None:
    number = await start(bench)
    say(bench, number, "Use tabs.")
    await bench.rest()
    assert await look(bench) == 0
    assert await look(bench, LiveLook(bench.another_worker())) == 0
    assert await contents(bench) == ["Use tabs."]


async def test_delivery_is_stored_and_not_read_yet_at_the_look_then_the_agent_gets_it_once(
    bench: Bench,
) -> None:
    number = await start(bench)
    say(bench, number, "Use tabs.")
    await bench.receive(lost(bench))
    await look(bench)
    assert await contents(bench) == ["Use tabs."]


async def test_worker_ends_before_what_it_found_is_read_then_the_next_one_does_not_double_it(
    bench: Bench,
) -> None:
    number = await start(bench)
    say(bench, number, "Use tabs.")
    lost(bench)
    catch_up(bench)
    for parts in (bench.parts, bench.another_worker()):
        bench.clock.add(LATER_S)
        await LiveLook(parts).look()
    await bench.rest(listen=False)
    assert await contents(bench) == ["Use tabs."]


async def test_comment_is_so_young_that_its_delivery_may_be_on_its_way_then_the_next_look_has_it(
    bench: Bench,
) -> None:
    number = await start(bench)
    catch_up(bench)
    bench.clock.add(LATER_S)
    bench.github.advance_clock(LATER_S)
    say(bench, number, "Use tabs.")
    lost(bench)
    looking = LiveLook(bench.parts)
    assert await looking.look() == 0
    assert await look(bench, looking) == 1
    assert await contents(bench) == ["Use tabs."]


async def test_comment_older_than_the_work_is_not_given_to_the_agent(bench: Bench) -> None:
    number = bench.open_issue()
    say(bench, number, "I saw this too.")
    bench.github.advance_clock(60)
    bench.label(number)
    await bench.receive([one for one in lost(bench) if one["event"] == "issues"])
    await bench.rest()
    await look(bench)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    assert await contents(bench) == []


@pytest.mark.parametrize("told", [True, False], ids=["a delivery told of it", "no delivery told of it"])
async def test_words_of_somebody_without_write_access_are_not_given_also_when_they_get_it_later(
    bench: Bench, told: bool
) -> None:
    number = await start(bench)
    say(bench, number, "Use tabs.", by="bob")
    if told:
        await bench.rest()
    else:
        lost(bench)
        await look(bench)
    bench.github.set_collaborator(bench.name, "bob", "write")
    lost(bench)
    await look(bench)
    assert await contents(bench) == []


async def test_change_of_a_comment_without_a_delivery_then_it_replaces_what_was_not_sent(
    bench: Bench,
) -> None:
    number = await start(bench)
    comment = say(bench, number, "Use tabs.")
    await bench.rest()
    bench.github.advance_clock(5)
    bench.github.edit_comment(comment, "carol", "Use spaces.")
    sent = lost(bench)
    assert await look(bench) == 1
    await late(bench, sent)
    assert await contents(bench) == ["Use spaces."]


async def test_comment_that_somebody_else_changed_is_not_given_under_its_authors_name(bench: Bench) -> None:
    number = await start(bench)
    comment = say(bench, number, "Use tabs.")
    bench.github.advance_clock(5)
    bench.github.edit_comment(comment, "alice", "Delete everything.")
    lost(bench)
    await look(bench)
    assert await contents(bench) == []


async def test_review_without_a_delivery_then_it_is_one_follow_up_also_when_it_comes_late(
    bench: Bench,
) -> None:
    await ready(bench)
    review(bench, "Some things.", "Rename this.", event="REQUEST_CHANGES")
    sent = lost(bench)
    assert await look(bench) == 2
    await late(bench, sent)
    assert await look(bench) == 0
    [given] = await contents(bench)
    assert "Some things." in given
    assert "Rename this." in given


async def test_inline_comments_without_a_delivery_then_they_are_collected(bench: Bench) -> None:
    await ready(bench)
    single(bench, "Rename this.")
    single(bench, "And that.")
    lost(bench)
    await look(bench)
    [given] = await contents(bench)
    assert "Rename this." in given
    assert "And that." in given


async def test_review_of_somebody_without_write_access_is_asked_about_once(bench: Bench) -> None:
    await ready(bench)
    review(bench, "Do as I say.", "Rename this.", by="bob")
    await bench.rest()
    assert await look(bench) == 0
    assert await contents(bench) == []


async def test_nothing_new_was_said_then_a_look_takes_four_requests_for_it(bench: Bench) -> None:
    number = await start(bench)
    say(bench, number, "Use tabs.")
    await bench.rest()
    looking = LiveLook(bench.parts)
    await look(bench, looking)
    before = max(int(one["number"]) for one in bench.github.requests())
    bench.clock.add(LATER_S)
    await looking.look()
    asked = [one["path"] for one in bench.github.requests(after=before)]
    assert len([path for path in asked if path.endswith(("/comments", "/reviews"))]) == 4
