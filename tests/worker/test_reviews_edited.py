"""Words of a review that were changed after the agent had been given them."""

from __future__ import annotations

import threading

import pytest

from app.domain.commands import Comment, parse_comment
from tests.worker.bench import Bench
from tests.worker.test_comments import contents
from tests.worker.test_reviews import finish_round, ready, review, single, take_in


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
