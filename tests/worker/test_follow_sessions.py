"""Follow-ups one after another: each goes on in the session that the one before has left."""

from __future__ import annotations

from app.domain.states import SpecState
from sandbox_payload.wire import TRANSCRIPT_FILE
from tests.worker.bench import Bench
from tests.worker.planning import brief
from tests.worker.test_follow import ready_without_sandbox
from tests.worker.test_reviews import take_in


async def follow_up(bench: Bench, number: int, text: str) -> bytes | None:
    """Somebody says something while no sandbox is there; the session that the new one is given."""
    before = len(bench.sandboxes.orders)
    bench.github.comment(bench.name, number, "alice", text)
    await bench.rest()
    assert len(bench.sandboxes.orders) == before + 1
    return bench.sandboxes.newest.inputs.get(TRANSCRIPT_FILE)


async def let_it_end(bench: Bench, session: bytes | None, text: str, **manifest: str) -> None:
    """The agent takes in what was said, follows it and is not needed any more."""
    await take_in(bench)
    if session is not None:
        await bench.upload("transcript.tar.gz", session)
    await bench.hand_in(text=text, **manifest)
    await bench.rest()
    bench.sandboxes.end(bench.sandboxes.newest.name, 0)
    await bench.pass_time(15)
    assert (await bench.spec()).state is SpecState.IN_REVIEW


async def test_follow_ups_one_after_another_each_go_on_where_the_one_before_ended(bench: Bench) -> None:
    number = await ready_without_sandbox(bench)
    assert await follow_up(bench, number, "Add a changelog.") == b"session"
    await let_it_end(bench, b"session and changelog", "changelog\n", session_id="s-1")
    await bench.pass_time(86_400, 43_200)
    assert await follow_up(bench, number, "Sign it.") == b"session and changelog"
    assert brief(bench).resume_session_id == "s-1"
    await let_it_end(bench, b"all of it", "signed\n", session_id="s-1")
    assert await follow_up(bench, number, "Thanks, and a date.") == b"all of it"


async def test_follow_up_began_a_session_of_its_own_then_the_next_goes_on_with_that(bench: Bench) -> None:
    """It could not read the one it had been given."""
    number = await ready_without_sandbox(bench)
    await follow_up(bench, number, "Add a changelog.")
    await let_it_end(bench, b"anew", "changelog\n", session_id="s-2")
    assert await follow_up(bench, number, "Sign it.") == b"anew"
    assert brief(bench).resume_session_id == "s-2"


async def test_session_of_a_follow_up_was_too_large_to_keep_then_the_next_goes_on_with_an_older_one(
    bench: Bench,
) -> None:
    number = await ready_without_sandbox(bench)
    await follow_up(bench, number, "Add a changelog.")
    await let_it_end(bench, None, "changelog\n", session_id="s-1")
    assert await follow_up(bench, number, "Sign it.") == b"session"
    assert brief(bench).resume_session_id == "s-1"


async def test_sandbox_of_a_follow_up_is_lost_then_the_next_one_goes_on_with_what_it_had_kept(
    bench: Bench,
) -> None:
    number = await ready_without_sandbox(bench)
    await follow_up(bench, number, "Add a changelog.")
    await bench.upload("transcript.tar.gz", b"half of it")
    bench.sandboxes.lose(bench.sandboxes.newest.name)
    await bench.pass_time(30)
    assert bench.sandboxes.newest.inputs[TRANSCRIPT_FILE] == b"half of it"
    assert [one.content for one in await bench.messages()] == ["Add a changelog."]
    assert (await bench.messages())[0].sandbox_id == bench.sandboxes.newest.sandbox_id
