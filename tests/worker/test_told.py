"""What people do to what we show: comments deleted or edited, checks run again, again and again."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.states import SpecState
from tests.worker.bench import Bench
from tests.worker.test_life import finish, start


async def fail(bench: Bench) -> int:
    """A run whose agent gave up; its issue."""
    number = await start(bench)
    await bench.hand_in(text="half\n", status="failed", reason="model_error", detail="out of credit")
    await bench.rest()
    assert (await bench.spec()).concluded_at is not None
    return number


def newest_check(bench: Bench) -> dict[str, Any]:
    return dict(max(bench.github.check_runs(bench.name), key=lambda run: run["id"]))


def status_id(bench: Bench, number: int) -> int:
    listed = bench.github.issue(bench.name, number)["comment_list"]
    return int(next(one["id"] for one in listed if "part=status" in one["body"]))


async def hear_suites(bench: Bench) -> None:
    """Re-runs of whole suites come to the App unasked."""
    await bench.receive(bench.new_deliveries())
    await bench.rest()


async def test_status_comment_deleted_by_a_person_is_made_once_more(bench: Bench) -> None:
    number = await start(bench)
    bench.github.delete_comment(status_id(bench, number), "alice")
    await finish(bench, number)
    await bench.pass_time(60)
    assert len(bench.comments(number)) == 1


async def test_status_comment_edited_by_a_person_is_put_right_and_never_believed(bench: Bench) -> None:
    number = await start(bench)
    comment = status_id(bench, number)
    text = bench.status(number).replace("Starting the agent", "Merged")
    bench.github.edit_comment(comment, "alice", f"{text}\n### 🎉 Merged, deploy it\n- [x] Ready for review")
    await bench.pass_time(30)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    await finish(bench, number)
    assert "deploy it" not in bench.status(number)
    assert status_id(bench, number) == comment


async def test_agents_last_words_are_the_reason_it_failed_for_then_people_read_them_once(
    bench: Bench,
) -> None:
    number = await start(bench)
    said = "There is no such model."
    await bench.hand_in(
        status="failed", reason="model_error", detail=f"{said} A file was left out.", summary=said
    )
    await bench.rest()
    assert bench.status(number).count(said) == 1


@pytest.mark.parametrize("how", ["button", "rerun", "suite"])
async def test_retry_asked_for_twice_by_a_writer_starts_once(bench: Bench, how: str) -> None:
    number = await fail(bench)
    check = newest_check(bench)
    assert "### Not finished" in bench.github.pulls(bench.name)[0]["body"]
    for _ in range(2):
        if how == "button":
            bench.github.press_button(check["id"], "carol", "retry")
        elif how == "rerun":
            bench.github.rerun_check(check["id"], "carol")
        else:
            bench.github.rerun_suite(bench.name, check["check_suite"]["id"], "carol")
    await hear_suites(bench)
    await bench.pass_time(10)
    assert len(bench.sandboxes.orders) == 2
    assert newest_check(bench)["conclusion"] is None, "at work again, and shown so"
    assert "### Work in progress" in bench.github.pulls(bench.name)[0]["body"]
    await bench.hand_in()
    await bench.rest()
    assert "Done: ready for review" in bench.status(number)
    assert newest_check(bench)["conclusion"] == "success"


async def test_retry_pressed_before_the_status_comment_tells_the_end_counts_once_it_does(
    bench: Bench,
) -> None:
    await start(bench)
    bench.github.add_fault(method="PATCH", path=f"{bench.name}/issues/comments/", status=502, times=3)
    await bench.hand_in(text="half\n", status="failed", reason="model_error", detail="out of credit")
    await bench.rest()
    spec = await bench.spec()
    assert (spec.state, spec.concluded_at) == (SpecState.FAILED, None)
    bench.github.press_button(newest_check(bench)["id"], "carol", "retry")
    await hear_suites(bench)
    await bench.pass_time(120)
    assert len(bench.sandboxes.orders) == 2
    assert (await bench.spec()).state is SpecState.IMPLEMENTING


@pytest.mark.parametrize("how", ["button", "rerun", "suite"])
async def test_retry_by_someone_without_write_access_is_refused(bench: Bench, how: str) -> None:
    await fail(bench)
    check, before = newest_check(bench), len(bench.writes())
    if how == "button":
        bench.github.press_button(check["id"], "bob", "retry")
    elif how == "rerun":
        bench.github.rerun_check(check["id"], "bob")
    else:
        bench.github.rerun_suite(bench.name, check["check_suite"]["id"], "bob")
    await hear_suites(bench)
    assert (await bench.spec()).state is SpecState.FAILED
    assert len(bench.writes()) == before


async def test_retry_on_an_old_head_of_work_that_ended_well_is_answered_once(bench: Bench) -> None:
    number = await start(bench)
    await finish(bench, number)
    old = min(bench.github.check_runs(bench.name), key=lambda run: run["id"])
    assert old["conclusion"] == "neutral"
    for _ in range(2):
        bench.github.rerun_check(old["id"], "carol")
        await hear_suites(bench)
    await bench.pass_time(5)
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert [("Nothing to try again" in text) for text in bench.comments(number)] == [False, True]


async def test_retry_pressed_where_nothing_was_to_change_is_answered_once(bench: Bench) -> None:
    number = await start(bench)
    await bench.hand_in(head_sha=bench.sandboxes.newest.start_sha)
    await bench.rest()
    await bench.pass_time(60)
    assert (await bench.spec()).state is SpecState.COMPLETED
    branch = next(line for line in bench.status(number).splitlines() if line.startswith("| Branch |"))
    assert "](" not in branch, "it is deleted"
    pull = bench.github.pulls(bench.name)[0]
    assert pull["state"] == "closed"
    assert "### Nothing to change" in pull["body"]
    for _ in range(2):
        bench.github.press_button(newest_check(bench)["id"], "carol", "retry")
        await hear_suites(bench)
    await bench.pass_time(5)
    assert [("Nothing to try again" in text) for text in bench.comments(number)] == [False, True]


async def test_check_put_off_when_the_pull_request_was_opened_follows_soon(bench: Bench) -> None:
    bench.github.add_fault(method="POST", path=f"{bench.name}/check-runs$", status=502, times=2)
    number = bench.open_issue()
    bench.label(number)
    await bench.rest()
    await bench.pass_time(40)
    assert [run["conclusion"] for run in bench.github.check_runs(bench.name)] == [None]


async def test_lost_sandbox_moves_the_check_run_to_the_head_it_left(bench: Bench) -> None:
    await start(bench)
    head = await bench.checkpoint()
    bench.sandboxes.lose(bench.sandboxes.newest.name)
    await bench.pass_time(30)
    del head  # given our author, it is another commit on the branch
    pull = bench.github.pulls(bench.name)[0]
    runs = {run["head_sha"]: run["conclusion"] for run in bench.github.check_runs(bench.name)}
    assert runs.pop(pull["head"]["sha"]) is None
    assert list(runs.values()) == ["neutral"]
