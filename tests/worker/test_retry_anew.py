"""Work whose branch people gave up is tried again: on a new branch, where nothing of it is, all of it is done again."""

from __future__ import annotations

from app.db.sandboxes import set_sandbox
from app.domain.states import SpecState, TaskState
from sandbox_payload.wire import PROMPT_FILE
from tests.worker import planning
from tests.worker.bench import Bench
from tests.worker.planning import tasks
from tests.worker.test_comments import say
from tests.worker.test_follow import ready_without_sandbox
from tests.worker.test_life import finish, start
from tests.worker.test_pause import interrupted
from tests.worker.test_reviews import take_in


async def test_pull_request_that_was_ready_is_closed_and_tried_again_then_the_work_is_done_again(
    bench: Bench,
) -> None:
    number = await start(bench)
    await finish(bench, number)
    bench.github.close_pull(bench.name, bench.github.pulls(bench.name)[0]["number"], "alice")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.CANCELLED
    say(bench, number, "/agent retry")
    await bench.pass_time(15)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    assert len(bench.sandboxes.orders) == 2
    await bench.hand_in()
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    pulls = bench.github.pulls(bench.name)
    assert [one["state"] for one in pulls] == ["closed", "open"]
    assert "work.txt" in bench.git("ls-tree", "--name-only", pulls[1]["head"]["sha"]).split()


async def test_pull_request_of_planned_work_is_closed_and_tried_again_then_each_task_is_done_again(
    bench: Bench,
) -> None:
    number = planning.start(bench)
    await bench.rest()
    await planning.plan(bench)
    await bench.hand_in(file="one.txt")
    await bench.rest()
    assert (await tasks(bench))["T1"].state is TaskState.COMPLETED
    bench.github.close_pull(bench.name, bench.github.pulls(bench.name)[0]["number"], "alice")
    await bench.rest()
    await bench.pass_time(60)
    assert (await bench.spec()).state is SpecState.CANCELLED
    say(bench, number, "/agent retry")
    await bench.pass_time(15)
    states = {key: row.state for key, row in (await tasks(bench)).items()}
    assert (states["T1"], states["T2"]) == (TaskState.RUNNING, TaskState.PENDING)


async def test_agent_was_at_work_when_it_was_closed_then_it_is_told_that_its_work_is_not_there(
    bench: Bench,
) -> None:
    number = await start(bench)
    bench.sandboxes.obeys = False
    bench.github.close_pull(bench.name, bench.github.pulls(bench.name)[0]["number"], "alice")
    await bench.rest()
    await interrupted(bench)
    async with bench.db.write() as session:  # as the web process notes it from the manifest
        await set_sandbox(session, bench.sandboxes.newest.sandbox_id, bench.clock(), session_id="s-1")
    bench.sandboxes.end(bench.sandboxes.newest.name, 143)
    await bench.pass_time(15)
    assert (await bench.spec()).state is SpecState.CANCELLED
    say(bench, number, "/agent retry")
    await bench.pass_time(15)
    pull = bench.github.pulls(bench.name)[1]
    order = bench.sandboxes.newest
    assert order.start_sha == pull["head"]["sha"]
    assert "work.txt" not in bench.git("ls-tree", "--name-only", order.start_sha).split()
    assert planning.brief(bench).resume_session_id == "s-1"
    assert b"nothing of what you did for this task is in it" in order.inputs[PROMPT_FILE]
    bench.sandboxes.obeys = True
    await bench.checkpoint()
    await bench.upload("transcript.tar.gz", b"later")
    bench.sandboxes.lose(order.name)
    await bench.pass_time(30)
    assert b"What had been committed is in the work tree" in bench.sandboxes.newest.inputs[PROMPT_FILE]


async def test_followed_up_work_is_closed_and_tried_again_then_its_follow_ups_fall_away(bench: Bench) -> None:
    number = await ready_without_sandbox(bench)
    say(bench, number, "Add a changelog.")
    await bench.rest()
    await take_in(bench)
    await bench.hand_in(text="changelog\n", session_id="s-1")
    await bench.rest()
    bench.github.close_pull(bench.name, bench.github.pulls(bench.name)[0]["number"], "alice")
    await bench.pass_time(15)
    say(bench, number, "/agent retry")
    await bench.pass_time(15)
    states = {key: row.state for key, row in (await tasks(bench)).items()}
    assert states == {"T1": TaskState.RUNNING, "F1": TaskState.CANCELLED}
    await bench.hand_in()
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IN_REVIEW
