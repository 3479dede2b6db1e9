"""Work that people pause: the agent hands over what it has, nothing runs, and it goes on where it was."""

from __future__ import annotations

import pytest

from app.domain.states import SandboxState, SpecState, TaskState
from sandbox_payload.wire import BRIEF_FILE, PROMPT_FILE, Brief
from tests.worker import planning
from tests.worker.bench import Bench
from tests.worker.planning import tasks
from tests.worker.test_comments import contents, messages, poll, reactions, replies, say
from tests.worker.test_life import finish, start
from tests.worker.test_told import newest_check


async def pause(bench: Bench, number: int) -> None:
    comment = say(bench, number, "/agent pause")
    await bench.rest()
    assert reactions(bench, comment) == ["+1"]


async def interrupted(bench: Bench, round_: int = 1) -> None:
    """What a sandbox hands in when it is asked to end while its agent works."""
    await bench.upload("transcript.tar.gz", b"session")
    await bench.hand_in(round_, "half\n", status="cancelled", reason="terminated", session_id="s-1")


async def paused(bench: Bench, number: int) -> None:
    """Its sandbox has handed in half of the work, and is gone."""
    bench.sandboxes.obeys = False
    await pause(bench, number)
    assert bench.sandboxes.stops == [bench.sandboxes.newest.name]
    await interrupted(bench)
    bench.sandboxes.end(bench.sandboxes.newest.name, 143)
    await bench.pass_time(15)  # the status comment is edited at its own pace
    assert (await bench.spec()).state is SpecState.PAUSED
    bench.sandboxes.obeys = True


async def test_paused_while_the_agent_works_keeps_its_work_and_goes_on_in_its_session(bench: Bench) -> None:
    number = await start(bench)
    first = bench.sandboxes.newest
    await paused(bench, number)
    spec = await bench.spec()
    assert bench.sandboxes.deleted == [first.name]
    assert bench.github.pulls(bench.name)[0]["head"]["sha"] == spec.head_sha != first.start_sha
    assert "Paused" in bench.status(number)
    assert "paused by carol" in bench.status(number)
    assert (newest_check(bench)["status"], newest_check(bench)["output"]["title"]) == (
        "in_progress",
        "⏸️ Paused",
    )
    assert "### Paused" in bench.github.pulls(bench.name)[0]["body"]
    before = len(bench.writes())
    await bench.pass_time(7200, 600)
    assert len(bench.writes()) == before
    say(bench, number, "/agent resume")
    await bench.pass_time(15)
    second = bench.sandboxes.newest
    assert second.name != first.name
    brief = Brief.model_validate_json(second.inputs[BRIEF_FILE])
    assert (brief.resume_session_id, second.start_sha) == ("s-1", spec.head_sha)
    assert "Paused" not in bench.status(number)
    assert "Paused" not in newest_check(bench)["output"]["title"]
    assert "An agent works on this." in bench.github.pulls(bench.name)[0]["body"]
    assert [task.attempts for task in (await tasks(bench)).values()] == [1]
    await bench.hand_in()
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IN_REVIEW


async def test_message_while_paused_waits_is_said_once_and_reaches_the_next_sandbox(bench: Bench) -> None:
    number = await start(bench)
    await paused(bench, number)
    for text in ("Use tabs.", "And tests."):
        say(bench, number, text)
        await bench.rest()
    assert ["`/agent resume`" in text for text in replies(bench, number)] == [True]
    say(bench, number, "/agent resume")
    await bench.rest()
    assert await poll(bench) == await contents(bench) == ["Use tabs.", "And tests."]


async def test_sandbox_that_ends_without_a_word_leaves_its_checkpoint(bench: Bench) -> None:
    number = await start(bench)
    head = await bench.checkpoint()
    await pause(bench, number)
    await bench.pass_time(5)
    spec = await bench.spec()
    assert spec.state is SpecState.PAUSED
    assert head != spec.head_sha != spec.start_sha
    (box,) = await bench.boxes()
    assert (box.state, box.reason, box.removed_at is not None) == (SandboxState.COMPLETED, "paused", True)
    assert [(one.state, one.attempts) for one in (await tasks(bench)).values()] == [(TaskState.PENDING, 0)]


async def test_sandbox_that_does_not_end_is_taken_down_after_its_grace(bench: Bench) -> None:
    number = await start(bench)
    bench.sandboxes.obeys = False
    await pause(bench, number)
    await bench.pass_time(15)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    assert "Pausing" in bench.status(number)
    await bench.pass_time(20)
    assert (await bench.spec()).state is SpecState.PAUSED
    assert bench.sandboxes.sights == {}


async def test_result_that_comes_while_it_is_paused_counts(bench: Bench) -> None:
    number = await start(bench)
    bench.sandboxes.obeys = False
    await pause(bench, number)
    await bench.hand_in()
    await bench.rest()
    bench.sandboxes.end(bench.sandboxes.newest.name, 0)
    await bench.pass_time(5)
    assert (await bench.spec()).state is SpecState.PAUSED
    assert [one.state for one in (await tasks(bench)).values()] == [TaskState.COMPLETED]
    say(bench, number, "/agent resume")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert len(bench.sandboxes.orders) == 1


async def test_resumed_before_it_rests_goes_on_as_if_the_machine_had_been_restarted(bench: Bench) -> None:
    number = await start(bench)
    bench.sandboxes.obeys = False
    await pause(bench, number)
    say(bench, number, "/agent resume")
    await bench.rest()
    await interrupted(bench)
    bench.sandboxes.end(bench.sandboxes.newest.name, 143)
    await bench.pass_time(10)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    assert len(bench.sandboxes.orders) == 2


@pytest.mark.parametrize("label", ["agent", "agent:plan"])
async def test_paused_while_it_is_planned_or_waits_for_a_yes_goes_on_there(bench: Bench, label: str) -> None:
    number = planning.start(bench, label)
    await bench.rest()
    if label == "agent:plan":
        await planning.plan(bench)
    else:
        await planning.hand_in_phase(bench, "explore")
    back = (await bench.spec()).state
    await pause(bench, number)
    await bench.pass_time(5)
    assert (await bench.spec()).state is SpecState.PAUSED
    assert bench.sandboxes.sights == {}
    say(bench, number, "/agent resume")
    await bench.rest()
    assert (await bench.spec()).state is back
    assert len(bench.sandboxes.orders) == (1 if back is SpecState.AWAITING_APPROVAL else 2)
    if back is SpecState.PLANNING:
        assert list(planning.brief(bench).outputs) == ["explore"]


async def test_paused_in_review_keeps_its_success_and_what_was_under_way_goes_on(bench: Bench) -> None:
    number = await start(bench)
    await bench.hand_in()
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    await bench.report(1)
    bench.sandboxes.obeys = False
    await pause(bench, number)
    await interrupted(bench, 2)
    bench.sandboxes.end(bench.sandboxes.newest.name, 143)
    await bench.pass_time(5)
    assert (await bench.spec()).state is SpecState.PAUSED
    say(bench, number, "/agent resume")
    await bench.rest()
    second = bench.sandboxes.newest
    assert b"go on with the task" in second.inputs[PROMPT_FILE]
    assert Brief.model_validate_json(second.inputs[BRIEF_FILE]).resume_session_id == "s-1"


async def test_paused_in_review_at_rest_is_in_review_again(bench: Bench) -> None:
    number = await start(bench)
    await finish(bench, number)
    await pause(bench, number)
    assert (await bench.spec()).state is SpecState.PAUSED
    assert newest_check(bench)["conclusion"] == "success"
    say(bench, number, "/agent resume")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert "Done" in bench.status(number)
    assert len(bench.sandboxes.orders) == 1


async def test_merged_while_paused_is_completed(bench: Bench) -> None:
    number = await start(bench)
    await finish(bench, number)
    await pause(bench, number)
    bench.github.merge_pull(bench.name, bench.github.pulls(bench.name)[0]["number"], "alice")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.COMPLETED
    assert "Merged" in bench.status(number)


async def test_stopped_while_paused_is_cancelled_and_a_retry_does_not_pause(bench: Bench) -> None:
    number = await start(bench)
    await paused(bench, number)
    say(bench, number, "/agent stop")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.CANCELLED
    assert newest_check(bench)["conclusion"] == "cancelled"
    say(bench, number, "/agent retry")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    assert await messages(bench) == []


async def test_pause_and_resume_of_work_that_has_ended_are_answered(bench: Bench) -> None:
    number = await start(bench)
    await finish(bench, number)
    bench.github.merge_pull(bench.name, bench.github.pulls(bench.name)[0]["number"], "alice")
    await bench.rest()
    say(bench, number, "/agent pause\n/agent resume")
    await bench.rest()
    assert [
        "Nothing to pause" in text and "Nothing to resume" in text for text in replies(bench, number)
    ] == [True]
