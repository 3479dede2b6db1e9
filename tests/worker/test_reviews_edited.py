"""Words of a review that were changed after the agent had been given them."""

from __future__ import annotations

import threading

import pytest

from app.domain.commands import Comment, parse_comment
from app.domain.states import SpecState
from tests.worker.bench import Bench
from tests.worker.test_comments import contents, replies
from tests.worker.test_reviews import finish_round, reactions_to, ready, review, single, take_in


async def corrections(bench: Bench) -> list[str]:
    return [text for text in await contents(bench) if text.startswith("This replaces")]


async def edit(bench: Bench, comment_id: int, text: str) -> None:
    bench.github.edit_line_comment(comment_id, "carol", text)
    await bench.rest()
    bench.clock.add(5)
    await bench.rest()


@pytest.mark.parametrize(
    ("first", "changed"),
    [
        ("Delete it.", "Rename it."),
        ("Remove the check\nonly in tests.\n\nAnd drop the cache.", "And drop the cache."),
        ("Remove the check\n\nonly in tests.", "Remove the check"),
    ],
    ids=["to another thread's words", "to its own last line", "to its own first line"],
)
async def test_words_changed_to_what_stands_elsewhere_in_the_review_are_corrected(
    bench: Bench, first: str, changed: str
) -> None:
    await ready(bench)
    made = review(bench, "", first, "Rename it.", event="REQUEST_CHANGES")
    await bench.rest()
    await take_in(bench)
    await edit(bench, int(made["comments"][0]["id"]), changed)
    [correction] = await corrections(bench)
    assert correction.endswith(f"\n\n{changed}")


async def test_two_comments_of_a_thread_changed_to_the_same_words_are_both_corrected(bench: Bench) -> None:
    await ready(bench)
    first = single(bench, "Aaa")
    second = int(bench.github.reply(first, "carol", "Bbb")["id"])
    await bench.rest()
    await bench.pass_time(30)
    await take_in(bench)
    await edit(bench, first, "Ccc")
    await edit(bench, second, "Ccc")
    assert len(await corrections(bench)) == 2


async def test_words_changed_in_a_resolved_thread_start_nothing(bench: Bench) -> None:
    await ready(bench)
    made = review(bench, "", "Aaa", event="REQUEST_CHANGES")
    first = int(made["comments"][0]["id"])
    await bench.rest()
    await finish_round(bench, await take_in(bench), 2)
    bench.github.resolve_thread(first, "carol")
    await bench.rest()
    await edit(bench, first, "Aaa (thanks, done)")
    assert await corrections(bench) == []


async def test_strangers_long_inline_comment_is_read_beside_the_loop(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ready(bench)
    readers: set[threading.Thread] = set()

    def read(body: str) -> Comment:
        if len(body) > 5_000:
            readers.add(threading.current_thread())
        return parse_comment(body)

    monkeypatch.setattr("worker.intake.parse.parse_comment", read)
    single(bench, "![" * 3_000, by="bob")
    await bench.rest()
    assert readers
    assert threading.main_thread() not in readers


async def reviewed(bench: Bench) -> int:
    """The number of a comment that the agent has dealt with."""
    await ready(bench)
    made = review(bench, "", "Rename it.", event="REQUEST_CHANGES")
    await bench.rest()
    await finish_round(bench, await take_in(bench), 2)
    return int(made["comments"][0]["id"])


async def test_words_changed_after_the_merge_reach_nobody_and_that_is_said_once(bench: Bench) -> None:
    first = await reviewed(bench)
    pull = bench.github.pulls(bench.name)[0]["number"]
    bench.github.merge_pull(bench.name, pull, "alice")
    await bench.rest()
    await edit(bench, first, "Rename it to `kit`.")
    await edit(bench, first, "Rename it to `box`.")
    assert await corrections(bench) == []
    assert len([text for text in replies(bench, pull) if "This work has ended" in text]) == 1


async def test_words_changed_after_their_work_was_cancelled_wait_for_a_retry_and_that_is_said(
    bench: Bench,
) -> None:
    first = await reviewed(bench)
    number = (await bench.spec()).issue_number
    bench.github.comment(bench.name, number, "carol", "/agent stop now")
    await bench.rest()
    await bench.pass_time(60)
    await edit(bench, first, "Rename it to `kit`.")
    pull = bench.github.pulls(bench.name)[0]["number"]
    assert len([text for text in replies(bench, pull) if "This work was cancelled" in text]) == 1
    bench.github.comment(bench.name, number, "carol", "/agent retry")
    await bench.rest()
    assert (await take_in(bench))[-1].content.endswith("\n\nRename it to `kit`.")


async def test_words_changed_after_their_work_was_refused_take_it_up_again_once(bench: Bench) -> None:
    await ready(bench)
    made = review(bench, "", "Change the owners.", event="REQUEST_CHANGES")
    await bench.rest()
    given = await take_in(bench)
    await bench.upload("transcript.tar.gz", b"session")
    await bench.hand_in(2, file="CODEOWNERS", session_id="s-1", taken_in=[str(row.id) for row in given])
    await bench.rest()
    assert (await bench.spec()).state is SpecState.FAILED
    await bench.pass_time(30)
    await edit(bench, int(made["comments"][0]["id"]), "Leave the owners alone.")
    await bench.pass_time(30)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    later = (await contents(bench))[1:]
    assert [text.count("Leave the owners alone.") for text in later] == [1]


async def test_words_are_changed_after_their_round_failed_then_the_review_is_done_again_with_them(
    bench: Bench,
) -> None:
    await ready(bench)
    made = review(bench, "", "Rename it.", "Sort it.", event="REQUEST_CHANGES")
    await bench.rest()
    await finish_round(bench, await take_in(bench), 2, status="failed", reason="api_error")
    await edit(bench, int(made["comments"][0]["id"]), "Rename it to `kit`.")
    bench.github.comment(bench.name, (await bench.spec()).issue_number, "carol", "/agent retry")
    await bench.rest()
    await bench.pass_time(60)
    [again] = (await contents(bench))[1:]
    assert "\nRename it to `kit`." in again
    assert "\nSort it." in again


async def test_words_are_changed_by_someone_who_has_said_too_much_then_it_is_marked_and_said(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await reviewed(bench)
    monkeypatch.setattr("worker.review_said.SAID_AT_MOST", 1)
    await edit(bench, first, "Rename it to `kit`.")
    assert await corrections(bench) == []
    assert "confused" in reactions_to(bench)[0]
    pull = bench.github.pulls(bench.name)[0]["number"]
    assert len([text for text in replies(bench, pull) if "within an hour" in text]) == 1
