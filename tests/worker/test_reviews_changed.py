"""Words of a review that change, or whose author loses access, after the agent was given them."""

from __future__ import annotations

import pytest

from app.domain.states import SpecState
from tests.worker import planning
from tests.worker.bench import Bench
from tests.worker.test_comments import contents, replies, say
from tests.worker.test_follow import ready_without_sandbox
from tests.worker.test_life import finish, start
from tests.worker.test_pause import pause
from tests.worker.test_reviews import (
    answers,
    finish_round,
    pull_of,
    reactions_to,
    ready,
    review,
    take_in,
)
from tests.worker.test_who import settle


async def given_a_review(bench: Bench, words: str) -> int:
    """The comment's number; the agent has it."""
    await ready(bench)
    made = review(bench, "", words, event="REQUEST_CHANGES")
    await bench.rest()
    await take_in(bench)
    return int(made["comments"][0]["id"])


async def change(bench: Bench, comment_id: int, words: str) -> None:
    bench.github.edit_line_comment(comment_id, "carol", words)
    await bench.rest()
    bench.clock.add(5)
    await bench.rest()


async def corrections(bench: Bench) -> list[str]:
    return [text.rsplit("\n", 1)[1] for text in await contents(bench) if text.startswith("This replaces")]


async def test_words_become_a_part_of_what_they_were_then_the_agent_is_told(bench: Bench) -> None:
    comment_id = await given_a_review(bench, "Do not delete the file")
    await change(bench, comment_id, "delete the file")
    assert await corrections(bench) == ["delete the file"]


async def test_words_are_changed_back_and_forth_then_the_last_ones_arrive(bench: Bench) -> None:
    comment_id = await given_a_review(bench, "Aaa")
    for words in ("Bbb", "Ccc", "Bbb", "Aaa"):
        await change(bench, comment_id, words)
        await take_in(bench)
    assert await corrections(bench) == ["Bbb", "Ccc", "Bbb", "Aaa"]


async def test_words_are_changed_after_their_answer_then_there_is_one_more_round(bench: Bench) -> None:
    await ready(bench)
    made = review(bench, "", "Aaa", event="REQUEST_CHANGES")
    await bench.rest()
    await finish_round(bench, await take_in(bench), 2)
    await change(bench, int(made["comments"][0]["id"]), "And also rename it")
    assert await corrections(bench) == ["And also rename it"]


async def test_author_lost_access_then_changed_words_reach_nobody(bench: Bench) -> None:
    comment_id = await given_a_review(bench, "Aaa")
    bench.github.edit_line_comment(comment_id, "carol", "Bbb")
    await bench.receive(bench.new_deliveries())
    await bench.take_in()
    bench.github.set_collaborator(bench.name, "carol", "read")
    bench.github.edit_line_comment(comment_id, "carol", "Something else")
    bench.clock.add(600)
    await bench.rest()
    assert await corrections(bench) == []


@pytest.mark.parametrize("status", [403, 404])
async def test_github_refuses_once_to_show_a_review_then_it_is_read_later(bench: Bench, status: int) -> None:
    await ready_without_sandbox(bench)
    bench.github.add_fault(path="/pulls/[0-9]+/comments", status=status, times=3)
    review(bench, "Please fix", "One")
    await bench.rest()
    await bench.pass_time(120, 30)
    bench.github.clear_faults()
    await bench.pass_time(300, 60)
    assert "Please fix" in (await contents(bench))[-1]
    assert "eyes" in reactions_to(bench)[0]


async def test_review_of_paused_work_is_told_when_it_is_heard_and_is_not_the_operators(bench: Bench) -> None:
    number = await start(bench)
    await finish(bench, number)
    await pause(bench, number)
    review(bench, "Hmm", "One", event="REQUEST_CHANGES")
    await bench.pass_time(60)
    pull = bench.github.pulls(bench.name)[0]["number"]
    assert [text for text in replies(bench, pull) if "/agent resume" in text] != []
    assert "carol" in bench.status(number)


async def test_one_person_reviews_without_end_then_it_is_left_out_and_said(bench: Bench) -> None:
    await ready(bench)
    for n in range(34):
        review(bench, f"R{n}")
    await bench.rest()
    assert len(await contents(bench)) == 30
    pull = bench.github.pulls(bench.name)[0]["number"]
    assert len(replies(bench, pull)) == 1
    await bench.pass_time(120)
    assert sum("confused" in given for given in reactions_to(bench, "reviews")) == 4


async def test_no_round_is_allowed_without_asking_then_each_resume_allows_one(bench: Bench) -> None:
    number = await start(bench)
    await settle(bench, max_rounds=0)
    await bench.hand_in(session_id="s-1")
    await bench.rest()
    say(bench, number, "One thing")
    await bench.rest()
    await bench.pass_time(20)
    assert (await bench.spec()).state is SpecState.PAUSED
    before = len(bench.sandboxes.orders)
    say(bench, number, "/agent resume")
    await bench.rest()
    await bench.pass_time(20)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    assert len(bench.sandboxes.orders) == before + 1


async def test_sandbox_for_a_change_to_the_plan_dies_again_and_again_then_it_is_told_and_the_plan_stands(
    bench: Bench,
) -> None:
    number = planning.start(bench, "agent:plan")
    await bench.rest()
    await planning.plan(bench)
    bench.sandboxes.end(bench.sandboxes.newest.name, 137)
    await bench.pass_time(60)
    say(bench, number, "Change the plan")
    await bench.rest()
    for _ in range(12):
        if bench.sandboxes.newest.name in bench.sandboxes.sights:
            bench.sandboxes.end(bench.sandboxes.newest.name, 137)
        await bench.pass_time(60, 20)
    assert len(bench.sandboxes.orders) <= 5
    assert (await bench.spec()).state is SpecState.AWAITING_APPROVAL
    assert "The change to the plan did not come about" in bench.status(number)


async def test_paused_work_is_merged_then_nothing_says_that_it_is_paused(bench: Bench) -> None:
    number = await start(bench)
    await finish(bench, number)
    await pause(bench, number)
    bench.github.merge_pull(bench.name, bench.github.pulls(bench.name)[0]["number"], "alice")
    await bench.rest()
    for words in ("One more thing", "/agent status", "/agent resume"):
        say(bench, number, words)
        await bench.rest()
    assert [text for text in replies(bench, number) if "being paused" in text or "is paused" in text] == []


@pytest.mark.parametrize("words", [("Rename it.",), ("Rename it.", "And this.")])
async def test_thread_opened_again_before_the_batch_was_sent_is_part_of_it(
    bench: Bench, words: tuple[str, ...]
) -> None:
    await ready(bench)
    made = review(bench, "", *words, event="REQUEST_CHANGES")
    first = made["comments"][0]["id"]
    await bench.rest()
    bench.github.resolve_thread(first, "carol")
    await bench.rest()
    bench.github.resolve_thread(first, "carol", False)
    await bench.rest()
    await bench.rest()
    given = await take_in(bench)
    assert [all(text in row.content for text in words) for row in given] == [True]
    await finish_round(bench, given, 2)
    assert len(answers(bench)) == len(words)


async def test_review_that_is_too_long_then_the_rest_is_said_not_to_be_looked_at(bench: Bench) -> None:
    number = await ready(bench)
    made = review(bench, "", *(f"Point {n}. " + "x" * 9_900 for n in range(31)), event="REQUEST_CHANGES")
    await bench.rest()
    given = await take_in(bench)
    assert len(given[0].content) <= 300_000
    await finish_round(bench, given, 2)
    last = made["comments"][-1]["id"]
    texts = dict(answers(bench))
    assert len(texts) == 31
    left_out = [root for root, text in texts.items() if text.startswith("Not looked at")]
    assert left_out == [
        one["id"] for one in made["comments"] if f"Thread {one['id']} " not in given[0].content
    ]
    assert last in left_out
    assert f"{len(left_out)} more left out" in given[0].content
    assert reactions_to(bench)[30] == ["confused"]
    place = f"pull/{pull_of(bench)['number']}#discussion_r{made['comments'][0]['id']}"
    assert f"{bench.name}/{place}): taken in" in bench.status(number)
    bench.github.reply(last, "carol", "Please look.")
    await bench.rest()
    await bench.pass_time(30)
    [again] = [row for row in await bench.messages() if row.id != given[0].id]
    assert "Point 30." in again.content
