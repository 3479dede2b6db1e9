"""Rounds on work that is in review already, which failed, were refused or cut short: they can be done again."""

from __future__ import annotations

import pytest

from app.domain.states import MessageState, SpecState, TaskState
from tests.worker.bench import Bench
from tests.worker.planning import brief, tasks
from tests.worker.test_comments import say
from tests.worker.test_follow import ready_without_sandbox
from tests.worker.test_reviews import answers, finish_round, ready, review, take_in

FAILED = {"status": "failed", "reason": "budget"}


async def retry(bench: Bench, number: int) -> None:
    say(bench, number, "/agent retry")
    await bench.rest()


async def fail_round(bench: Bench, **manifest: object) -> None:
    """The sandbox that waited hands in its second round with these fields, and ends."""
    await bench.upload("transcript.tar.gz", b"session")
    await bench.hand_in(2, text="half\n", session_id="s-1", **manifest)
    await bench.rest()
    bench.sandboxes.end(bench.sandboxes.newest.name, 1)
    await bench.pass_time(30)


async def test_follow_up_that_failed_is_done_again_with_what_it_had_not_taken_in(bench: Bench) -> None:
    number = await ready_without_sandbox(bench)
    say(bench, number, "Add a changelog.")
    await bench.rest()
    await bench.hand_in(text="half\n", **FAILED)
    await bench.pass_time(20)
    assert "`/agent retry` tries it again" in bench.status(number)
    assert "not taken in: its run had failed" in bench.status(number)
    await retry(bench, number)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    assert len(bench.sandboxes.orders) == 3
    given = await take_in(bench)
    assert [row.content for row in given] == ["Add a changelog."]
    await bench.hand_in(text="changelog\n", taken_in=[str(row.id) for row in given])
    await bench.pass_time(20)
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert "could not be followed" not in bench.status(number)
    assert {key: task.state for key, task in (await tasks(bench)).items()}["F1"] is TaskState.COMPLETED
    await retry(bench, number)
    assert len(bench.sandboxes.orders) == 3


async def test_review_round_that_failed_is_said_and_done_again_with_new_answers(bench: Bench) -> None:
    number = await ready(bench)
    made = review(bench, "", "Rename it.", event="REQUEST_CHANGES")
    await bench.rest()
    given = await take_in(bench)
    await fail_round(bench, taken_in=[str(row.id) for row in given], **FAILED)
    assert [text for _, text in answers(bench)] == [
        "This could not be dealt with: the run failed. The status comment on the issue says why."
    ]
    assert "budget of the run was used up" in bench.status(number)
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    await retry(bench, number)
    await bench.rest()
    assert brief(bench).resume_session_id == "s-1"
    again = await take_in(bench)
    assert ["Rename it." in row.content for row in again] == [True]
    await finish_round(bench, again)
    found = answers(bench)
    assert [root for root, _ in found] == [made["comments"][0]["id"]] * 2
    assert found[1][1].startswith("Looked at in [`")


@pytest.mark.parametrize("button", [False, True])
async def test_round_that_was_refused_is_done_again(bench: Bench, button: bool) -> None:
    number = await ready(bench)
    say(bench, number, "Change the owners.")
    await bench.rest()
    given = await take_in(bench)
    await bench.upload("transcript.tar.gz", b"session")
    await bench.hand_in(2, file="CODEOWNERS", session_id="s-1", taken_in=[str(row.id) for row in given])
    await bench.rest()
    assert (await bench.spec()).state is SpecState.FAILED
    if button:
        bench.github.rerun_check(bench.github.check_runs(bench.name)[-1]["id"], "carol")
        await bench.rest()
    else:
        await retry(bench, number)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    assert len(bench.sandboxes.orders) == 2
    assert brief(bench).resume_session_id == "s-1"


async def test_round_that_was_stopped_goes_on_after_a_retry(bench: Bench) -> None:
    number = await ready(bench)
    say(bench, number, "Add a changelog.")
    await bench.rest()
    await take_in(bench)
    await bench.report(3)
    say(bench, number, "/agent stop now")
    await bench.rest()
    await bench.pass_time(60)
    assert (await bench.spec()).state is SpecState.CANCELLED
    await retry(bench, number)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    assert len(bench.sandboxes.orders) == 2


async def test_review_that_stopped_the_work_is_done_again_twice_then_it_stops_nothing_more(
    bench: Bench,
) -> None:
    number = await ready(bench)
    review(bench, "/agent stop now\n\nRename it.")
    await bench.rest()
    await bench.pass_time(60)
    assert (await bench.spec()).state is SpecState.CANCELLED
    for n in range(2):
        await retry(bench, number)
        given = await take_in(bench)
        assert ["Rename it." in row.content for row in given] == [True]
        await bench.hand_in(text=f"try {n}\n", taken_in=[str(row.id) for row in given], **FAILED)
        await bench.pass_time(20)
    said = bench.comments(bench.github.pulls(bench.name)[0]["number"])
    assert ["The work ends here" in text for text in said].count(True) == 1


async def test_work_that_was_stopped_at_rest_is_in_review_again_after_a_retry(bench: Bench) -> None:
    number = await ready(bench)
    say(bench, number, "/agent stop")
    await bench.rest()
    await bench.pass_time(60)
    await retry(bench, number)
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert len(bench.sandboxes.orders) == 1


@pytest.mark.parametrize("exit_code", [143, 137])
async def test_machine_goes_away_during_a_round_then_it_goes_on_by_itself(
    bench: Bench, exit_code: int
) -> None:
    number = await ready(bench)
    review(bench, "", "Rename it.", event="REQUEST_CHANGES")
    await bench.rest()
    given = await take_in(bench)
    await bench.report(3)
    if exit_code == 143:  # it was told to end, and had the time to hand in
        taken_in = [str(row.id) for row in given]
        await bench.hand_in(
            2, text="half\n", status="cancelled", reason="terminated", session_id="s-1", taken_in=taken_in
        )
        await bench.rest()
    bench.sandboxes.end(next(iter(bench.sandboxes.orders)), exit_code)
    await bench.pass_time(30)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    assert len(bench.sandboxes.orders) == 2
    assert answers(bench) == []
    await finish_round(bench, [])
    assert len(answers(bench)) == 1
    assert "could not be followed" not in bench.status(number)


async def test_retry_while_nothing_has_failed_says_so(bench: Bench) -> None:
    number = await ready(bench)
    await retry(bench, number)
    assert any("Nothing has failed" in text for text in bench.comments(number))
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert [row for row in await bench.messages() if row.state is not MessageState.CANCELLED] == []
