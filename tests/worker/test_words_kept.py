"""Words whose moment is bad: beside a stop, when the work ends, more commands than are heeded."""

from __future__ import annotations

import pytest

from app.domain.states import MessageState, SpecState
from tests.worker.bench import Bench
from tests.worker.test_commands import change, hear
from tests.worker.test_comments import contents, messages, poll, reactions, replies, say
from tests.worker.test_life import finish, start
from tests.worker.test_reviews import ready, review, single, take_in
from tests.worker.test_told import fail


async def test_words_beside_a_stop_wait_for_a_retry_and_that_is_said(bench: Bench) -> None:
    number = await start(bench)
    comment = say(bench, number, "/agent stop\nUse tabs next time.")
    await bench.rest()
    assert await poll(bench) == []
    assert reactions(bench, comment) == ["+1", "eyes"]
    assert ["`/agent retry` takes the work up again" in text for text in replies(bench, number)] == [True]
    await bench.pass_time(60)
    assert (await bench.spec()).state is SpecState.CANCELLED
    assert "waits for `/agent retry`" in bench.status(number)
    say(bench, number, "/agent retry")
    await bench.rest()
    assert await poll(bench) == ["Use tabs next time."]


async def test_words_after_the_label_was_removed_are_answered_with_the_label_and_no_retry(
    bench: Bench,
) -> None:
    number = await start(bench)
    say(bench, number, "Use tabs.")
    bench.unlabel(number)
    await bench.rest()
    await bench.pass_time(60)
    say(bench, bench.github.pulls(bench.name)[0]["number"], "Use spaces.")
    say(bench, number, "/agent status")
    await bench.rest()
    await bench.pass_time(60)
    pull = bench.github.pulls(bench.name)[0]["number"]
    told = [*replies(bench, number), *replies(bench, pull), bench.status(number)]
    assert ["et the label again" in text for text in told] == [True, True, True]
    assert [text for text in told if "/agent retry" in text] == []
    assert "not taken in before the work ended" in bench.status(number)


async def test_stopped_in_review_then_the_status_says_what_was_pushed_and_how_to_go_on(bench: Bench) -> None:
    number = await ready(bench)
    say(bench, number, "/agent stop")
    await bench.rest()
    await bench.pass_time(60)
    status = bench.status(number)
    assert "- [x] Result checked and pushed\n- [ ] Ready for review" in status
    assert (
        "To try again, comment `/agent retry`, press Retry on the check run, or set the label again" in status
    )


async def test_words_beside_a_stop_are_changed_after_the_retry_then_the_agent_hears_it_at_once(
    bench: Bench,
) -> None:
    number = await start(bench)
    comment = say(bench, number, "/agent stop now\nUse tabs next time.")
    await bench.rest()
    await bench.pass_time(60)
    say(bench, number, "/agent retry")
    await bench.rest()
    assert await poll(bench) == ["Use tabs next time."]
    bench.github.edit_comment(comment, "carol", "/agent stop now\nUse spaces.")
    await bench.rest()
    assert [text.endswith("Use spaces.") for text in await poll(bench)] == [False, True]
    assert (await bench.spec()).state is SpecState.IMPLEMENTING


async def test_words_beside_a_stop_are_changed_before_the_end_then_they_wait(bench: Bench) -> None:
    number = await start(bench)
    comment = say(bench, number, "/agent stop\nUse tabs next time.")
    await bench.rest()
    bench.github.edit_comment(comment, "carol", "/agent stop\nUse spaces next time.")
    await bench.rest()
    assert await poll(bench) == []


async def test_words_beside_a_stop_of_failed_work_do_not_take_it_up(bench: Bench) -> None:
    number = await fail(bench)
    say(bench, number, "/agent stop\nIt is enough.")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.FAILED
    assert [row.state for row in await messages(bench)] == [MessageState.QUEUED]


async def test_words_beside_a_stop_in_a_review_wait_as_well(bench: Bench) -> None:
    number = await ready(bench)
    review(bench, "/agent stop\nThis is all wrong.", event="REQUEST_CHANGES")
    await bench.rest()
    assert await poll(bench) == []
    await bench.pass_time(60)
    assert (await bench.spec()).state is SpecState.CANCELLED
    say(bench, number, "/agent retry")
    await bench.rest()
    assert ["This is all wrong." in row.content for row in await messages(bench)] == [True]


async def test_words_that_nobody_took_in_before_the_merge_are_told_as_such(bench: Bench) -> None:
    number = await start(bench)
    await finish(bench, number)
    say(bench, number, "One more thing.")
    bench.github.merge_pull(bench.name, bench.github.pulls(bench.name)[0]["number"], "alice")
    await bench.rest()
    await bench.pass_time(20)
    assert (await bench.spec()).state is SpecState.COMPLETED
    assert "not taken in before the work ended" in bench.status(number)
    assert {row.state for row in await messages(bench)} <= {MessageState.REFUSED}


async def test_commands_beyond_the_tenth_are_said_to_be_left_out(bench: Bench) -> None:
    number = await start(bench)
    say(bench, number, "/agent status\n" * 12)
    await hear(bench)
    assert ["2 more were left out" in text for text in replies(bench, number)] == [True]


async def test_help_for_an_unknown_command_comes_once_an_hour(bench: Bench) -> None:
    number = await start(bench)
    bench.clock.add(3600 - bench.clock().timestamp() % 3600)  # an hour begins
    for line in ("/agent fly", "/agent swim", "/agent run\nand more"):
        say(bench, number, line)
    await hear(bench)
    assert ["I don't know what" in text for text in replies(bench, number)] == [True]
    bench.clock.add(3600)
    say(bench, number, "/agent fly")
    await hear(bench)
    assert len(replies(bench, number)) == 2


@pytest.mark.parametrize("made", [False, True])
async def test_base_of_failed_work_is_taken_for_the_retry_or_said_to_be_late(
    bench: Bench, made: bool
) -> None:
    number = await start(bench)
    bench.git("branch", "other", "main")
    values = {} if made else {"start_sha": None}
    await change(bench, state=SpecState.FAILED, **values)
    say(bench, number, "/agent base other")
    await hear(bench)
    assert (await bench.spec()).base_asked == (None if made else "other")
    expected = "its base stays" if made else "`/agent retry` takes it up again"
    assert [expected in text for text in replies(bench, number)] == [True]


async def test_very_many_commands_in_inline_comments_are_answered_up_to_a_limit(bench: Bench) -> None:
    await ready(bench)
    for _ in range(23):
        single(bench, "/agent status")
    await bench.rest()
    await bench.pass_time(60)
    pull = int(bench.github.pulls(bench.name)[0]["number"])
    assert len(replies(bench, pull)) == 20


async def test_mention_in_a_review_by_someone_without_write_access_gets_a_confused_face(bench: Bench) -> None:
    await ready(bench)
    slug = (await bench.parts.identity()).slug
    single(bench, f"@{slug} do this", by="bob")
    single(bench, "And this.", by="bob")
    await bench.rest()
    number = int(bench.github.pulls(bench.name)[0]["number"])
    found = bench.github.issue(bench.name, number)["review_comments"]
    assert [[one["content"] for one in row["reaction_list"]] for row in found] == [["confused"], []]
    assert await contents(bench) == []
    assert await take_in(bench) == []
