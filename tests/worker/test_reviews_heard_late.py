"""Words of a review that the agent was not given with it, and that their author changes afterwards."""

from __future__ import annotations

import random
from typing import Any

import pytest

from app.db.models import Message
from tests.worker.bench import Bench
from tests.worker.test_comments import contents, replies
from tests.worker.test_reviews import answers, finish_round, reactions_to, ready, review, single, take_in

Deliveries = list[dict[str, Any]]


async def given_all_but_one(bench: Bench) -> tuple[int, int, list[Message]]:
    """Two threads of one review, of which the agent has the second; what it was given."""
    await ready(bench)
    made = review(bench, "Some things.", "Rename it.", "Sort it.", event="REQUEST_CHANGES")
    first, second = (int(one["id"]) for one in made["comments"])
    bench.github.edit_line_comment(first, "alice", "Delete everything.")
    await bench.rest()
    given = await take_in(bench)
    assert [f"Thread {root} " in given[0].content for root in (first, second)] == [False, True]
    return first, second, given


def edits(bench: Bench, comment_id: int, *texts: str) -> list[dict[str, Any]]:
    """The deliveries of it."""
    bench.new_deliveries()
    for text in texts:
        bench.github.edit_line_comment(comment_id, "carol", text)
    return bench.new_deliveries()


async def hear(bench: Bench, deliveries: list[dict[str, Any]], suffix: str = "") -> None:
    for one in deliveries:
        await bench.receive([one], suffix)
        await bench.rest(listen=False)
    await bench.pass_time(60)


async def test_thread_that_was_left_out_is_changed_then_it_is_a_follow_up_with_place_and_answer(
    bench: Bench,
) -> None:
    first, second, given = await given_all_but_one(bench)
    await hear(bench, edits(bench, first, "Rename it to `kit`."))
    _, message = await bench.messages()
    assert message.content.startswith("Review of pull request")
    assert "changes requested. 1 thread below." in message.content
    assert f"Thread {first} (1 of 1): work.txt, line 1\n```diff\n" in message.content
    assert "\nRename it to `kit`.\n" in message.content
    assert not any(words in message.content for words in ("Some things.", "Sort it.", "Delete everything."))
    assert reactions_to(bench)[0] == ["confused", "eyes"]
    await finish_round(bench, [*given, *await take_in(bench)], 2)
    found = [(root, text.split(maxsplit=2)[:2]) for root, text in answers(bench)]
    assert sorted(found) == sorted(
        [(first, ["Not", "looked"]), (first, ["Looked", "at"]), (second, ["Looked", "at"])]
    )


async def test_it_is_heard_of_twice_and_in_any_order_then_it_is_one_follow_up(bench: Bench) -> None:
    first, _, given = await given_all_but_one(bench)
    heard = edits(bench, first, "Rename it to `a`.", "Rename it to `b`.", "Rename it to `kit`.")
    twice = [(one, suffix) for one in heard for suffix in ("", "-again")]
    random.Random(5).shuffle(twice)
    for one, suffix in twice:
        await bench.receive([one], suffix)
        await bench.rest(listen=False)
    await hear(bench, heard, "-late")
    [_, message] = await contents(bench)
    assert "\nRename it to `kit`.\n" in message
    await finish_round(bench, [*given, *await take_in(bench)], 2)
    assert len(answers(bench)) == 3
    await hear(bench, heard, "-after")
    assert len(await contents(bench)) == 2


async def test_it_is_changed_once_more_after_that_then_one_correction_is_said(bench: Bench) -> None:
    first, _, _ = await given_all_but_one(bench)
    await hear(bench, edits(bench, first, "Rename it to `kit`."))
    await take_in(bench)
    await hear(bench, edits(bench, first, "Rename it to `box`."))
    assert (await contents(bench))[2:] == [
        f"This replaces what I wrote before in my comment in thread {first}:\n\nRename it to `box`."
    ]


async def test_it_is_deleted_before_it_was_sent_then_it_is_not_said(bench: Bench) -> None:
    first, _, given = await given_all_but_one(bench)
    await hear(bench, edits(bench, first, "Rename it to `kit`."))
    bench.github.delete_line_comment(first, "carol")
    await bench.rest()
    assert [row.content for row in await take_in(bench)] == [given[0].content]


async def test_round_of_the_review_failed_then_each_thread_is_done_again_once(bench: Bench) -> None:
    first, second, given = await given_all_but_one(bench)
    await hear(bench, edits(bench, first, "Rename it to `kit`."))
    given += (await take_in(bench))[1:]
    await finish_round(bench, given, 2, status="failed", reason="api_error")
    bench.github.comment(bench.name, (await bench.spec()).issue_number, "carol", "/agent retry")
    await bench.rest()
    await bench.pass_time(60)
    again = (await contents(bench))[2:]
    assert sorted([f"Thread {root} " in text for root in (first, second)] for text in again) == [
        [False, True],
        [True, False],
    ]
    assert ["Some things." in text for text in again].count(True) == 1


async def test_several_threads_that_did_not_fit_are_changed_then_they_are_one_follow_up(bench: Bench) -> None:
    await ready(bench)
    made = review(bench, "", *(f"Point {n}. " + "x" * 9_900 for n in range(31)), event="REQUEST_CHANGES")
    await bench.rest()
    [given] = await take_in(bench)
    left_out = [one["id"] for one in made["comments"] if f"Thread {one['id']} " not in given.content]
    assert len(left_out) > 1
    await hear(bench, [one for root in left_out for one in edits(bench, int(root), f"In short: {root}.")])
    [_, message] = await contents(bench)
    assert f"{len(left_out)} threads below." in message
    assert all(f"\nIn short: {root}." in message for root in left_out)
    await finish_round(bench, await take_in(bench), 2)
    assert len(answers(bench)) == 31 + len(left_out)


async def test_text_of_a_review_that_was_left_out_is_changed_then_it_is_said_as_a_review(
    bench: Bench,
) -> None:
    await ready(bench)
    made = review(bench, "Careful.", "Sort it.", event="REQUEST_CHANGES")
    bench.github.edit_review(made["id"], "alice", "Delete everything.")
    await bench.rest()
    await take_in(bench)
    bench.new_deliveries()
    bench.github.edit_review(made["id"], "carol", "Careful with the names.")
    await hear(bench, bench.new_deliveries())
    [_, message] = await contents(bench)
    assert message.endswith("by carol: changes requested.\n\nCareful with the names.")
    assert "eyes" in reactions_to(bench, "reviews")[0]


async def test_comment_that_was_a_command_gets_words_after_it_was_looked_at_then_they_are_heard(
    bench: Bench,
) -> None:
    await ready(bench)
    first = single(bench, "/agent status")
    await bench.rest()
    await bench.pass_time(60)
    await hear(bench, edits(bench, first, "/agent status\n\nRename it."))
    [message] = await take_in(bench)
    assert "Rename it." in message.content
    await finish_round(bench, [message], 2)
    assert [root for root, _ in answers(bench)] == [first]


async def test_command_in_a_review_gets_words_after_the_agent_has_the_rest_then_they_are_a_follow_up(
    bench: Bench,
) -> None:
    await ready(bench)
    made = review(bench, "", "/agent status", "Sort it.", event="REQUEST_CHANGES")
    await bench.rest()
    await take_in(bench)
    first = int(made["comments"][0]["id"])
    heard = edits(bench, first, "Rename it.")
    await hear(bench, heard)
    await hear(bench, heard, "-again")
    [_, message] = await contents(bench)
    assert f"Thread {first} (1 of 1)" in message
    assert "Sort it." not in message


async def test_only_the_change_of_a_comment_is_ever_heard_of_then_the_change_is_said(bench: Bench) -> None:
    await ready(bench)
    made = review(bench, "", "Rename it.", event="REQUEST_CHANGES")
    heard = bench.new_deliveries()
    await bench.receive([one for one in heard if one["event"] == "pull_request_review"])
    await bench.rest(listen=False)
    await take_in(bench)
    await hear(bench, edits(bench, int(made["comments"][0]["id"]), "Rename it to `kit`."))
    await bench.receive(heard, "-late")
    await bench.pass_time(60)
    assert [text.startswith("This replaces") for text in await contents(bench)] == [False, True]


async def split_with_one_unheard(bench: Bench, unheard: str) -> tuple[list[int], list[Message], Deliveries]:
    """Three threads of a review whose first lies in another batch by now, and of whose last and text no delivery came:
    the threads, what the agent was given, the deliveries that are missing.
    """
    await ready(bench)
    made = review(bench, "Some things.", "Rename it.", "Sort it.", unheard, event="REQUEST_CHANGES")
    roots = [int(one["id"]) for one in made["comments"]]
    bench.github.edit_line_comment(roots[0], "alice", "Delete everything.")
    heard = bench.new_deliveries()
    came = [one for one in heard if (one["payload"].get("comment") or {}).get("id") in roots[:2]]
    await bench.receive(came)
    await bench.rest(listen=False)
    await bench.pass_time(25)
    given = await take_in(bench)
    assert [f"Thread {root} " in given[0].content for root in roots] == [False, True, True]
    await hear(bench, edits(bench, roots[0], "Rename it to `kit`."))
    given += (await take_in(bench))[1:]
    assert len(given) == 2
    missing = [one for one in heard if one["event"].startswith("pull_request_review") and one not in came]
    return roots, given, missing


async def test_round_of_a_review_in_two_batches_failed_then_what_no_delivery_told_is_done_again_too(
    bench: Bench,
) -> None:
    roots, given, _ = await split_with_one_unheard(bench, "Test it.")
    await finish_round(bench, given, 2, status="failed", reason="api_error")
    bench.github.comment(bench.name, (await bench.spec()).issue_number, "carol", "/agent retry")
    await bench.rest()
    await bench.pass_time(60)
    again = (await contents(bench))[2:]
    assert sorted([f"Thread {root} " in text for root in roots] for text in again) == [
        [False, True, True],
        [True, False, False],
    ]
    assert ["Some things." in text for text in again].count(True) == 1


async def test_comment_no_delivery_told_of_is_changed_then_it_is_one_correction(bench: Bench) -> None:
    roots, _, missing = await split_with_one_unheard(bench, "Test it.")
    await hear(bench, edits(bench, roots[2], "Test it well."))
    await hear(bench, missing, "-late")
    assert (await contents(bench))[2:] == [
        f"This replaces what I wrote before in my comment in thread {roots[2]}:\n\nTest it well."
    ]


async def test_command_in_a_comment_of_a_review_in_two_batches_comes_late_then_it_is_answered_once(
    bench: Bench,
) -> None:
    _, _, missing = await split_with_one_unheard(bench, "/agent status\n\nTest it.")
    await hear(bench, missing, "-late")
    await hear(bench, missing, "-later")
    assert len(await contents(bench)) == 2
    assert len(replies(bench, bench.github.pulls(bench.name)[0]["number"])) == 1


@pytest.mark.parametrize("by", ["carol", "alice"])
@pytest.mark.parametrize("first", ["changed", "opened again"])
async def test_thread_that_was_left_out_is_changed_and_opened_again_then_it_is_given_once(
    bench: Bench, by: str, first: str
) -> None:
    root, _, _ = await given_all_but_one(bench)
    changed = edits(bench, root, "Rename it to `kit`.")
    bench.github.resolve_thread(root, by)
    bench.github.resolve_thread(root, by, False)
    opened = bench.new_deliveries()
    for one in [*changed, *opened] if first == "changed" else [*opened, *changed]:
        await bench.receive([one])
        await bench.rest(listen=False)
        await bench.pass_time(5)
    await bench.pass_time(60)
    told = [text for text in (await contents(bench))[1:] if f"Thread {root} " in text]
    assert len(told) == 1
    assert "Rename it to `kit`." in told[0]
