"""The repository's own checks fail on what we pushed: one follow-up for each head, so many for each pull request."""

from __future__ import annotations

import random
from typing import Any

import pytest
from sqlalchemy import update

from app.db.ci import count_fixes
from app.db.models import Message, Spec
from app.domain.states import MessageState, SpecState
from sandbox_payload.wire import MessageType
from simulators.github.control import Control
from tests.worker import planning
from tests.worker.bench import Bench
from tests.worker.planning import brief
from tests.worker.test_follow import ready_without_sandbox
from tests.worker.test_life import start
from worker.engine import Engine

CI_READ = {
    "actions": "read", "checks": "write", "contents": "write", "issues": "write", "metadata": "read",
    "pull_requests": "write",
}  # fmt: skip
WAITING = {MessageState.QUEUED, MessageState.SENT}


@pytest.fixture(scope="module")
def ci_app(simulated: Control) -> int:
    """GitHub's own CI, which is an App like any other."""
    simulated.create_org("platform", ["alice"])
    made = simulated.create_app("GitHub Actions", "platform", {"checks": "write", "actions": "write"}, [])
    return int(made["id"])


@pytest.fixture
def ci(bench: Bench, ci_app: int) -> int:
    """Its number; it runs in the repository of the test, and we may read its logs."""
    bench.github.accept_permissions(bench.installation_id, "alice", CI_READ)
    bench.github.install(ci_app, bench.name.split("/")[0], by="alice")
    return ci_app


async def in_review(bench: Bench) -> int:
    """Ready for review, with the sandbox still waiting for messages."""
    number = await start(bench)
    await bench.hand_in(session_id="s-1")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    return number


def head_of(bench: Bench) -> str:
    return str(bench.github.pulls(bench.name)[0]["head"]["sha"])


def run(bench: Bench, ci: int, conclusion: str = "failure", **job: Any) -> dict[str, Any]:
    branch = bench.github.pulls(bench.name)[0]["head"]["ref"]
    return bench.github.workflow_run(
        bench.name, ci, "alice", "CI", branch, conclusion=conclusion, jobs=[{"name": "unit tests", **job}]
    )


async def look(bench: Bench) -> None:
    """Past the time that deliveries make a look due."""
    await bench.rest()
    bench.clock.add(20)
    await bench.rest()


async def told(bench: Bench) -> list[Message]:
    return [one for one in await bench.messages() if one.message_type == MessageType.SYSTEM.value]


async def all_fixes_used(bench: Bench, ci: int) -> int:
    """In review, after two failures of its checks; its issue's number."""
    number = await in_review(bench)
    for round_ in (2, 3):
        run(bench, ci)
        await look(bench)
        await bench.hand_in(round_, text=f"attempt {round_}\n")
        await bench.rest()
    return number


async def test_check_fails_on_our_head_then_the_waiting_agent_gets_name_annotations_and_log_once(
    bench: Bench, ci: int
) -> None:
    number = await in_review(bench)
    log = "2026-01-02T03:04:05.678Z \x1b[31mFAILED\x1b[0m test_sum\n##[error]exit code 1\n" + "tidy up\n" * 40
    annotations = [
        {"path": "kit.py", "start_line": 7, "end_line": 7, "annotation_level": "failure", "message": "3 != 4"}
    ]
    run(bench, ci, log=log, annotations=annotations)
    await bench.rest()
    assert await told(bench) == []
    await look(bench)
    (message,) = await told(bench)
    assert message.sandbox_id == bench.sandboxes.newest.sandbox_id
    assert "unit tests (failure)" in message.content
    assert "kit.py:7: 3 != 4" in message.content
    assert "\nFAILED test_sum\n##[error]exit code 1" in message.content
    assert message.content.count("tidy up") == 5
    assert "2026-01-02" not in message.content
    assert "The agent looks at it (1 of 2)" in bench.status(number)
    run(bench, ci)  # somebody lets them run again, on the same head
    await look(bench)
    assert len(await told(bench)) == 1


async def test_no_sandbox_is_left_then_a_new_one_goes_on_in_the_saved_session(bench: Bench, ci: int) -> None:
    await ready_without_sandbox(bench)
    head = head_of(bench)
    run(bench, ci)
    await look(bench)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    assert brief(bench).resume_session_id == "s-1"
    assert bench.sandboxes.newest.start_sha == head
    (message,) = await told(bench)
    assert message.sandbox_id == bench.sandboxes.newest.sandbox_id
    await bench.hand_in(text="mended\n")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert head_of(bench) != head


async def test_every_fix_fails_then_it_stops_after_two_and_says_so_once(bench: Bench, ci: int) -> None:
    number = await all_fixes_used(bench, ci)
    run(bench, ci)
    await look(bench)
    run(bench, ci)
    await look(bench)
    assert len(await told(bench)) == 2
    pull = bench.github.pulls(bench.name)[0]["number"]
    assert len([text for text in bench.comments(pull) if "Checks still fail" in text]) == 1
    assert "Checks still fail" in bench.status(number)
    assert (await bench.spec()).state is SpecState.IN_REVIEW


async def test_work_goes_on_with_a_new_pull_request_then_that_has_fixes_of_its_own(
    bench: Bench, ci: int
) -> None:
    number = await all_fixes_used(bench, ci)
    bench.github.close_pull(bench.name, bench.github.pulls(bench.name)[0]["number"], "alice")
    await bench.pass_time(15)
    bench.github.comment(bench.name, number, "alice", "/agent retry")
    await bench.pass_time(15)
    await bench.hand_in(text="done anew\n")
    await bench.rest()
    pull = bench.github.pulls(bench.name)[1]
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    bench.github.create_check(bench.name, ci, "unit tests", pull["head"]["sha"], conclusion="failure")
    await look(bench)
    await bench.pass_time(20)
    assert "The agent looks at it (1 of 2)" in bench.status(number)
    assert len(await told(bench)) == 3


@pytest.mark.parametrize("was_tried", [False, True])
async def test_work_begins_anew_before_the_agent_took_a_failure_in_then_it_hears_only_what_people_said(
    bench: Bench, ci: int, was_tried: bool
) -> None:
    number = await in_review(bench)
    run(bench, ci)
    await look(bench)
    if was_tried:  # and failed, so that a retry says it again
        await bench.hand_in(2, text="half\n", status="failed", reason="error")
        await bench.rest()
    bench.github.comment(bench.name, number, "carol", "Use tabs.")
    await bench.rest()
    bench.github.close_pull(bench.name, bench.github.pulls(bench.name)[0]["number"], "alice")
    await bench.pass_time(60)
    assert (await bench.spec()).state is SpecState.CANCELLED
    bench.github.comment(bench.name, number, "alice", "/agent retry")
    await bench.pass_time(15)
    newest = bench.sandboxes.newest.sandbox_id
    heard = [
        one.content for one in await bench.messages() if one.sandbox_id == newest and one.state in WAITING
    ]
    assert (heard, len(bench.github.pulls(bench.name))) == (["Use tabs."], 2)


async def test_plan_is_made_anew_before_the_agent_took_a_failure_in_then_the_planning_agent_hears_only_people(
    bench: Bench, ci: int
) -> None:
    number = planning.start(bench)
    await bench.rest()
    await planning.plan(bench)
    while (await bench.spec()).state is SpecState.IMPLEMENTING:
        await bench.hand_in(file=f"{len(bench.sandboxes.orders)}.txt")
        await bench.rest()
    run(bench, ci)
    await look(bench)
    assert [one.state for one in await told(bench)] == [MessageState.QUEUED]
    bench.github.comment(bench.name, number, "carol", "Use tabs.")
    bench.github.comment(bench.name, number, "alice", "/agent stop")
    await bench.rest()
    await bench.pass_time(60)
    assert (await bench.spec()).state is SpecState.CANCELLED
    bench.github.comment(bench.name, number, "alice", "/agent retry design")
    await bench.pass_time(15)
    assert (await bench.spec()).state is SpecState.PLANNING
    newest = bench.sandboxes.newest.sandbox_id
    heard = [one for one in await bench.messages() if one.sandbox_id == newest and one.state in WAITING]
    assert [one.content for one in heard] == ["Use tabs."]


async def test_deliveries_repeated_and_shuffled_ask_once_when_all_checks_have_ended(
    bench: Bench, ci: int
) -> None:
    await in_review(bench)
    await bench.receive(bench.new_deliveries())
    run(bench, ci)
    for conclusion in ("cancelled", "neutral", "skipped"):
        bench.github.create_check(bench.name, ci, conclusion, head_of(bench), conclusion=conclusion)
    other = bench.github.create_check(bench.name, ci, "lint", head_of(bench))
    heard = [one for one in bench.new_deliveries() if one["event"].startswith(("check_", "workflow_"))]
    twice = [(one, suffix) for one in heard for suffix in ("", "-again")]
    random.Random(7).shuffle(twice)
    for one, suffix in twice:
        await bench.receive([one], suffix)
    await look(bench)
    assert await told(bench) == []
    bench.github.conclude_check(other["id"], "timed_out")
    bench.github.add_fault(path="/check-runs$", status=502, times=5)
    ended = bench.new_deliveries()
    await bench.receive(ended)
    await bench.receive(ended, "-again")
    await bench.pass_time(120, 20)
    bench.github.clear_faults()
    (message,) = await told(bench)
    assert "2 checks" in message.content


async def test_only_a_head_of_ours_that_is_in_review_counts(bench: Bench, ci: int) -> None:
    await start(bench)
    run(bench, ci)  # on the draft
    await look(bench)
    await bench.hand_in()
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    async with bench.db.write() as session:  # as the step that takes up somebody's push leaves it
        await session.execute(update(Spec).values(push_sha=None))
    run(bench, ci)
    await look(bench)
    assert await told(bench) == []


async def test_no_check_within_ten_minutes_is_mentioned_once_and_a_late_failure_still_counts(
    bench: Bench, ci: int
) -> None:
    number = await in_review(bench)
    await bench.pass_time(540, 180)
    assert "No check had started" not in bench.status(number)
    await bench.pass_time(120, 60)
    assert bench.status(number).count("No check had started") == 1
    check = bench.github.create_check(bench.name, ci, "unit tests", head_of(bench), conclusion="success")
    bench.github.conclude_check(check["id"], "failure")
    await look(bench)
    await bench.pass_time(20)
    assert "No check had started" not in bench.status(number)
    assert "Checks failed on" in bench.status(number)
    assert len(await told(bench)) == 1


async def test_checks_of_the_head_are_run_again_and_end_well_then_nothing_is_said_of_a_failure_any_more(
    bench: Bench, ci: int
) -> None:
    number = await in_review(bench)
    check = bench.github.create_check(bench.name, ci, "unit tests", head_of(bench), conclusion="failure")
    await look(bench)
    await bench.pass_time(20)
    assert "Checks failed on" in bench.status(number)
    bench.github.conclude_check(check["id"], "success")
    await look(bench)
    await bench.pass_time(20)
    assert "Checks failed on" not in bench.status(number)
    assert len(await told(bench)) == 1


async def test_end_that_no_delivery_told_of_is_found_by_the_next_look_of_one_of_two_workers(
    bench: Bench, ci: int
) -> None:
    await in_review(bench)
    check = bench.github.create_check(bench.name, ci, "unit tests", head_of(bench))
    await look(bench)
    bench.github.conclude_check(check["id"], "failure")
    bench.new_deliveries()
    bench.clock.add(700)
    spec_id = (await bench.spec()).id
    engines = [Engine(bench.parts), Engine(bench.another_worker())]
    for engine in (*engines, *engines):
        await engine.advance(spec_id)
    assert len(await told(bench)) == 1
    async with bench.db.read() as session:
        assert await count_fixes(session, spec_id) == 1
