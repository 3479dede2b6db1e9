"""What people say when the work is ready for review and no sandbox is there any more."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from app.domain.errors import RetryAt
from app.domain.ports import SandboxOrder, SandboxSight, SandboxStatus
from app.domain.states import MessageState, SpecState
from sandbox_payload.wire import PROMPT_ANEW_FILE, PROMPT_FILE
from tests.worker.bench import Bench
from tests.worker.planning import brief
from tests.worker.test_life import start


async def ready_without_sandbox(bench: Bench) -> int:
    number = await start(bench)
    await bench.upload("transcript.tar.gz", b"session")
    await bench.hand_in(session_id="s-1")
    await bench.rest()
    bench.sandboxes.end(bench.sandboxes.newest.name, 0)
    await bench.pass_time(15)
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert bench.sandboxes.sights == {}
    return number


async def test_somebody_comments_days_later_then_a_new_sandbox_goes_on_in_the_saved_session(
    bench: Bench,
) -> None:
    number = await ready_without_sandbox(bench)
    await bench.pass_time(2 * 86_400, 43_200)
    head = bench.github.pulls(bench.name)[0]["head"]["sha"]
    bench.github.comment(bench.name, number, "alice", "Please also add a changelog.")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    assert brief(bench).resume_session_id == "s-1"
    assert bench.sandboxes.newest.start_sha == head
    messages = await bench.messages()
    assert [(one.content, one.state) for one in messages] == [
        ("Please also add a changelog.", MessageState.QUEUED)
    ]
    assert messages[0].sandbox_id == bench.sandboxes.newest.sandbox_id
    await bench.hand_in(text="changelog\n")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert bench.github.pulls(bench.name)[0]["head"]["sha"] != head
    assert len(bench.github.pulls(bench.name)) == 1


async def test_follow_up_can_tell_an_agent_that_has_lost_its_session_what_the_work_was(bench: Bench) -> None:
    number = await ready_without_sandbox(bench)
    bench.github.comment(bench.name, number, "alice", "Please also add a changelog.")
    await bench.rest()
    inputs = bench.sandboxes.newest.inputs
    anew, usual = inputs[PROMPT_ANEW_FILE].decode(), inputs[PROMPT_FILE].decode()
    assert anew.startswith(usual)
    issue = f"BEGIN ISSUE {number}\nPlease.\nEND ISSUE {number}"
    assert (issue in anew, issue in usual) == (True, False)


async def test_follow_up_of_work_whose_session_was_never_saved_tells_the_agent_what_the_work_was(
    bench: Bench,
) -> None:
    number = await start(bench)
    await bench.hand_in()
    await bench.rest()
    bench.sandboxes.end(bench.sandboxes.newest.name, 0)
    await bench.pass_time(15)
    bench.github.comment(bench.name, number, "alice", "Please also add a changelog.")
    await bench.rest()
    inputs = bench.sandboxes.newest.inputs
    assert f"BEGIN ISSUE {number}\nPlease.\n" in inputs[PROMPT_FILE].decode()
    assert PROMPT_ANEW_FILE not in inputs


async def test_follow_up_fails_then_the_work_stays_ready_and_it_is_said(bench: Bench) -> None:
    number = await ready_without_sandbox(bench)
    bench.github.comment(bench.name, number, "alice", "Rewrite everything.")
    await bench.rest()
    await bench.hand_in(text="half\n", status="failed", reason="budget")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert "could not be followed" in bench.status(number)
    assert not bench.github.pulls(bench.name)[0]["draft"]


async def test_provider_has_no_room_and_then_fails_then_the_work_is_ready_and_waits_for_nothing(
    bench: Bench,
) -> None:
    number = await ready_without_sandbox(bench)
    bench.parts = replace(bench.parts, limits=replace(bench.parts.limits, restarts=0))
    full = True

    async def refuses(order: SandboxOrder) -> SandboxSight:
        if full:
            raise RetryAt("the quota is used up", bench.clock() + timedelta(seconds=60))
        return SandboxSight(order.name, SandboxStatus.ERROR, detail="it can't be made")

    bench.sandboxes.ensure_created = refuses  # type: ignore[method-assign]
    bench.github.comment(bench.name, number, "alice", "Please also add a changelog.")
    await bench.rest()
    await bench.pass_time(30, 15)
    assert "room at the sandbox provider" in bench.status(number)
    full = False
    await bench.pass_time(90, 15)
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert "could not be followed" in bench.status(number)
    assert "Waits for" not in bench.status(number)


async def test_comment_reaches_a_sandbox_that_still_waits_and_makes_no_new_one(bench: Bench) -> None:
    number = await start(bench)
    await bench.hand_in()
    await bench.rest()
    bench.github.comment(bench.name, number, "carol", "One more thing.")
    await bench.rest()
    assert len(bench.sandboxes.orders) == 1
    assert [one.content for one in await bench.messages()] == ["One more thing."]
