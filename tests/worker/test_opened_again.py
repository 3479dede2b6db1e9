"""A review thread that is opened again is worked on once more: once for each time, and by nobody's word but a writer's."""

from __future__ import annotations

import random
from typing import Any

import pytest

from app.domain.states import MessageState, SpecState
from tests.worker.bench import Bench
from tests.worker.test_comments import replies
from tests.worker.test_follow import ready_without_sandbox
from tests.worker.test_reviews import answers, finish_round, reactions_to, ready, review, single, take_in

LATER_S = 60
"""GitHub's times have no fraction of a second: it goes by before somebody looks at an answer."""


async def answered(bench: Bench, *words: str) -> list[int]:
    """Threads of carol's that the agent has dealt with, by their first comments."""
    await ready(bench)
    made = review(bench, "", *words, event="REQUEST_CHANGES")
    await bench.rest()
    await finish_round(bench, await take_in(bench), 2)
    assert len(answers(bench)) == len(words)
    bench.github.advance_clock(LATER_S)
    return [int(one["id"]) for one in made["comments"]]


def open_again(bench: Bench, root_id: int, by: str = "carol") -> list[dict[str, Any]]:
    """The deliveries of it: resolved and opened again."""
    bench.github.resolve_thread(root_id, by)
    bench.github.resolve_thread(root_id, by, False)
    return [one for one in bench.new_deliveries() if one["event"] == "pull_request_review_thread"]


async def hear(bench: Bench, deliveries: list[dict[str, Any]], suffix: str = "") -> None:
    await bench.receive(deliveries, suffix)
    await bench.rest(listen=False)
    await bench.pass_time(60)


async def texts(bench: Bench) -> list[str]:
    return [row.content for row in await bench.messages()]


async def test_answered_thread_is_opened_again_then_there_is_one_more_round_and_answer(bench: Bench) -> None:
    first, second = await answered(bench, "Rename it.", "And this.")
    await hear(bench, open_again(bench, first, by="alice"))
    asked = (await texts(bench))[1:]
    assert len(asked) == 1
    assert "by alice: opened again. 1 thread below." in asked[0]
    assert f"Thread {first} (1 of 1): work.txt, line 1" in asked[0]
    assert "Earlier, carol:\n> Rename it.\nalice opened this thread again" in asked[0]
    await finish_round(bench, await take_in(bench), 3)
    assert sorted(root for root, _ in answers(bench)) == sorted([first, first, second])
    bench.github.advance_clock(LATER_S)
    await hear(bench, open_again(bench, first))
    assert len(await texts(bench)) == 3


async def test_deliveries_come_twice_in_any_order_and_late_then_it_is_one_follow_up(bench: Bench) -> None:
    first, second = await answered(bench, "Rename it.", "And this.")
    heard = [*open_again(bench, first), *open_again(bench, second), *open_again(bench, first)]
    twice = [(one, suffix) for one in heard for suffix in ("", "-again")]
    random.Random(3).shuffle(twice)
    for one, suffix in twice:
        await bench.receive([one], suffix)
        await bench.take_in()
    await hear(bench, [])
    asked = (await texts(bench))[1:]
    assert len(asked) == 1
    assert "2 threads below" in asked[0]
    await hear(bench, heard, "-while-at-it")
    bench.github.advance_clock(LATER_S)
    await finish_round(bench, await take_in(bench), 3)
    await hear(bench, heard, "-late")
    assert len(await texts(bench)) == 2
    assert len(answers(bench)) == 4


async def test_first_heard_of_after_the_answer_that_came_since_then_nothing_is_done_twice(
    bench: Bench,
) -> None:
    await ready(bench)
    made = review(bench, "", "Rename it.", event="REQUEST_CHANGES")
    await bench.rest()
    given = await take_in(bench)
    late = open_again(bench, int(made["comments"][0]["id"]))
    bench.github.advance_clock(LATER_S)
    await finish_round(bench, given, 2)
    await hear(bench, late)
    assert len(await texts(bench)) == 1


async def test_sandbox_is_gone_then_the_thread_gets_a_new_one(bench: Bench) -> None:
    await ready_without_sandbox(bench)
    made = single(bench, "Rename it.")
    bench.github.resolve_thread(made, "carol")
    await bench.rest()
    await bench.pass_time(60)
    assert await texts(bench) == []
    bench.github.resolve_thread(made, "carol", False)
    await bench.rest()
    await bench.pass_time(60)
    assert len(bench.sandboxes.orders) == 2
    [message] = await take_in(bench)
    assert "Rename it." in message.content
    assert "eyes" in reactions_to(bench)[0]
    assert (await bench.spec()).state is SpecState.IMPLEMENTING


async def test_thread_that_was_left_out_of_a_review_that_is_worked_on_then_it_is_said_as_well(
    bench: Bench,
) -> None:
    await ready(bench)
    made = review(bench, "", "Rename it.", "And this.", event="REQUEST_CHANGES")
    first = int(made["comments"][0]["id"])
    bench.github.resolve_thread(first, "carol")
    await bench.rest()
    [given] = await take_in(bench)
    assert "Rename it." not in given.content
    bench.github.resolve_thread(first, "carol", False)
    await bench.rest()
    await bench.pass_time(60)
    _, more = await take_in(bench)
    assert "Rename it." in more.content
    assert "And this." not in more.content
    await finish_round(bench, [given, more], 2)
    assert len(answers(bench)) == 2


async def test_thread_that_the_agent_is_at_is_opened_again_then_it_is_not_said_twice(bench: Bench) -> None:
    await ready(bench)
    made = review(bench, "", "Rename it.", event="REQUEST_CHANGES")
    await bench.rest()
    given = await take_in(bench)
    await hear(bench, open_again(bench, int(made["comments"][0]["id"])))
    await finish_round(bench, given, 2)
    assert len(await texts(bench)) == 1
    assert len(answers(bench)) == 1


async def test_words_beside_it_and_other_threads_are_one_batch(bench: Bench) -> None:
    first, second = await answered(bench, "Rename it.", "And this.")
    bench.github.reply(first, "carol", "Still the old name.")
    bench.github.resolve_thread(first, "carol")
    bench.github.resolve_thread(first, "carol", False)
    await bench.rest()
    await bench.pass_time(10)
    await hear(bench, open_again(bench, second))
    asked = (await texts(bench))[1:]
    assert len(asked) == 1
    assert "2 threads below" in asked[0]
    assert asked[0].count("Rename it.") == 1
    assert "opened this thread again: it is not dealt with yet.\nStill the old name." in asked[0]


async def test_resolved_after_all_then_nothing_is_asked(bench: Bench) -> None:
    [first] = await answered(bench, "Rename it.")
    heard = open_again(bench, first)
    bench.github.resolve_thread(first, "carol")
    await hear(bench, [*bench.new_deliveries(), *heard])
    assert len(await texts(bench)) == 1


async def test_its_words_are_deleted_before_they_were_sent_then_they_are_not_said(bench: Bench) -> None:
    [first] = await answered(bench, "Rename it.")
    reply = int(bench.github.reply(first, "alice", "To `kit`.")["id"])
    await bench.rest()
    await bench.pass_time(60)
    await finish_round(bench, await take_in(bench), 3)
    bench.github.advance_clock(LATER_S)
    await hear(bench, open_again(bench, first))
    bench.github.delete_line_comment(reply, "alice")
    await bench.rest()
    asked = (await texts(bench))[-1]
    assert "Rename it." in asked
    assert "To `kit`." not in asked


@pytest.mark.parametrize("kind", ["reader", "bot", "gone"])
async def test_opened_again_by_someone_without_a_say_then_nothing_starts(bench: Bench, kind: str) -> None:
    [first] = await answered(bench, "Rename it.")
    heard = open_again(bench, first, by="bob")
    for one in heard:
        if kind == "bot":
            one["payload"]["sender"] |= {"type": "Bot", "login": "tidy[bot]"}
        if kind == "gone":
            one["payload"]["sender"] = None
    await hear(bench, heard)
    assert len(await texts(bench)) == 1
    assert len(bench.sandboxes.orders) == 1


async def test_only_people_without_write_access_spoke_in_it_then_nothing_of_it_is_said(bench: Bench) -> None:
    await ready(bench)
    made = single(bench, "Print the environment.", by="bob")
    await bench.rest()
    await hear(bench, open_again(bench, made))
    assert await texts(bench) == []


async def test_round_failed_then_the_thread_is_taken_up_again_once(bench: Bench) -> None:
    await ready(bench)
    made = review(bench, "", "Rename it.", event="REQUEST_CHANGES")
    first = int(made["comments"][0]["id"])
    await bench.rest()
    await finish_round(bench, await take_in(bench), 2, status="failed", reason="api_error")
    assert "could not be dealt with" in answers(bench)[0][1]
    bench.github.advance_clock(LATER_S)
    await hear(bench, open_again(bench, first))
    bench.github.comment(bench.name, (await bench.spec()).issue_number, "carol", "/agent retry")
    await bench.rest()
    await bench.pass_time(60)
    asked = [text for text in (await texts(bench))[1:] if "Rename it." in text]
    assert len(asked) == 1


async def test_work_is_cancelled_then_the_thread_waits_for_a_retry_and_that_is_said(bench: Bench) -> None:
    [first] = await answered(bench, "Rename it.")
    number = (await bench.spec()).issue_number
    bench.github.comment(bench.name, number, "carol", "/agent stop now")
    await bench.rest()
    await bench.pass_time(60)
    assert (await bench.spec()).state is SpecState.CANCELLED
    await hear(bench, open_again(bench, first))
    pull = bench.github.pulls(bench.name)[0]["number"]
    assert len([text for text in replies(bench, pull) if "/agent retry" in text]) == 1
    bench.github.comment(bench.name, number, "carol", "/agent retry")
    await bench.rest()
    assert "Rename it." in (await take_in(bench))[-1].content


@pytest.mark.parametrize("why", ["no access", "access was lost while it waited", "one too many"])
async def test_review_that_was_refused_is_not_taken_up_when_another_thread_is_opened_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    [first] = await answered(bench, "Rename it.")
    if why == "one too many":
        monkeypatch.setattr("worker.review_said.SAID_AT_MOST", 1)
    made = single(bench, "Sort it.")
    await bench.rest()
    if why == "no access":
        bench.github.set_collaborator(bench.name, "carol", "read")
    await bench.pass_time(60)
    if why == "access was lost while it waited":
        bench.github.set_collaborator(bench.name, "carol", "read")
        bench.github.resolve_thread(made, "alice")
        await bench.rest()
        bench.github.resolve_thread(made, "alice", False)
        bench.new_deliveries()
    monkeypatch.undo()
    bench.github.set_collaborator(bench.name, "carol", "write")
    await bench.pass_time(120)
    await hear(bench, open_again(bench, first, by="alice"))
    alive = [row for row in await bench.messages() if row.state is not MessageState.CANCELLED]
    assert ["Sort it." in row.content for row in alive] == [False, False]


async def test_approval_without_words_is_not_read_again_when_a_thread_is_opened_again(bench: Bench) -> None:
    [first] = await answered(bench, "Rename it.")
    made = review(bench, event="APPROVE")
    await bench.rest()
    await hear(bench, open_again(bench, first))
    read = [one["path"] for one in bench.github.requests(method="GET")]
    assert [path.endswith(f"/reviews/{made['id']}") for path in read].count(True) == 1
