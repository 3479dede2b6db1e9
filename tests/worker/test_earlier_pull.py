"""Work that began a new branch has a new pull request: what people say on the earlier one still reaches the agent."""

from __future__ import annotations

from typing import Any

from app.db.models import Message
from app.domain.states import MessageState, SpecState
from tests.worker.bench import Bench
from tests.worker.test_comments import reactions, say
from tests.worker.test_life import finish, start
from tests.worker.test_reviews import FILE, answers, finish_round, take_in


async def begun_anew(bench: Bench) -> tuple[int, int]:
    """The issue, and the pull request that was closed; an agent is at work for the next one."""
    number = await start(bench)
    await finish(bench, number)
    earlier = int(bench.github.pulls(bench.name)[0]["number"])
    bench.github.close_pull(bench.name, earlier, "alice")
    await bench.rest()
    bench.github.advance_clock(1)
    say(bench, number, "/agent retry")
    await bench.pass_time(15)
    assert (await bench.spec()).pull_number == bench.github.pulls(bench.name)[1]["number"]
    return number, earlier


async def last(bench: Bench) -> Message:
    return (await bench.messages())[-1]


async def test_comment_there_is_changed_and_deleted_as_on_the_issue(bench: Bench) -> None:
    _, earlier = await begun_anew(bench)
    said = say(bench, earlier, "Use tabs.")
    await bench.rest()
    assert ((await last(bench)).content, reactions(bench, said)) == ("Use tabs.", ["eyes"])
    bench.github.advance_clock(1)
    bench.github.edit_comment(said, "carol", "Use spaces.")
    await bench.rest()
    assert (await last(bench)).content == "Use spaces."
    bench.github.delete_comment(said, "alice")
    await bench.rest()
    assert (await last(bench)).state is MessageState.CANCELLED


async def test_comment_from_before_is_changed_there_then_one_correction_is_sent(bench: Bench) -> None:
    number = await start(bench)
    earlier = int(bench.github.pulls(bench.name)[0]["number"])
    said = say(bench, earlier, "Use tabs.")
    await bench.rest()
    await take_in(bench)
    await finish(bench, number)
    bench.github.close_pull(bench.name, earlier, "alice")
    await bench.rest()
    bench.github.advance_clock(1)
    say(bench, number, "/agent retry")
    await bench.pass_time(15)
    bench.github.edit_comment(said, "carol", "Use spaces.")
    await bench.rest()
    assert "Use spaces." in (await last(bench)).content


async def test_stranger_there_is_not_heard(bench: Bench) -> None:
    _, earlier = await begun_anew(bench)
    say(bench, earlier, "Use tabs.", by="bob")
    await bench.rest()
    assert await bench.messages() == []


async def test_review_there_is_a_round_that_is_answered_there_and_reviewed_on_the_new_one(
    bench: Bench,
) -> None:
    _, earlier = await begun_anew(bench)
    await bench.hand_in(session_id="s-1")
    await bench.rest()
    remark = {"path": FILE, "body": "Say why.", "line": 1}
    made: dict[str, Any] = dict(bench.github.review(bench.name, earlier, "carol", "COMMENT", "", [remark]))
    await bench.pass_time(30)
    given = await take_in(bench)
    assert ["Say why." in one.content for one in given] == [True]
    await finish_round(bench, given, 2)
    assert [root for root, _ in answers(bench)] == [made["comments"][0]["id"]]
    now = bench.github.pulls(bench.name)
    asked = [[one["login"] for one in pull["requested_reviewers"]] for pull in now]
    assert (asked[0].count("carol"), asked[1].count("carol")) == (0, 1)
    assert (await bench.spec()).state is SpecState.IN_REVIEW


async def test_one_person_speaks_in_lines_of_both_then_each_has_a_round_of_its_own(bench: Bench) -> None:
    _, earlier = await begun_anew(bench)
    await bench.hand_in(session_id="s-1")
    await bench.rest()
    for pull in bench.github.pulls(bench.name):
        bench.github.line_comment(bench.name, pull["number"], "carol", FILE, f"In {pull['number']}.")
    await bench.pass_time(60)
    said = [one.content for one in await bench.messages()]
    assert [(f"#{earlier} " in text, f"In {earlier}." in text) for text in sorted(said)] == [
        (True, True),
        (False, False),
    ]


async def test_it_is_opened_or_closed_again_then_the_work_stays_as_it_is(bench: Bench) -> None:
    _, earlier = await begun_anew(bench)
    for change in (bench.github.reopen_pull, bench.github.close_pull):
        bench.github.advance_clock(1)
        change(bench.name, earlier, "alice")
        await bench.pass_time(15)
        assert (await bench.spec()).state is SpecState.IMPLEMENTING
