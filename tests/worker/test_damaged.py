"""A result that arrives damaged: refused, and what the agent had saved before it still reaches the branch."""

from __future__ import annotations

import pytest

from app.domain.states import SpecState
from tests.worker.bench import Bench
from tests.worker.planning import tasks
from tests.worker.test_life import start


@pytest.mark.parametrize("kept_bytes", [0, 200])
async def test_result_cut_off_on_its_way_then_the_last_checkpoint_is_pushed_and_it_is_said(
    bench: Bench, kept_bytes: int
) -> None:
    number = await start(bench)
    before = bench.github.pulls(bench.name)[0]["head"]["sha"]
    await bench.checkpoint("half of it\n")
    await bench.hand_in(text="all of it\n", kept_bytes=kept_bytes)
    await bench.rest()
    assert (await bench.spec()).state is SpecState.FAILED
    pull = bench.github.pulls(bench.name)[0]
    assert pull["head"]["sha"] != before
    assert pull["draft"]
    assert "Not pushed" in bench.status(number)
    assert "saved before that is on the branch" in bench.status(number)


@pytest.mark.parametrize("first_status", ["completed", "failed"])
async def test_next_rounds_work_has_come_and_its_manifest_not_yet_then_nothing_is_refused_or_lost(
    bench: Bench, first_status: str
) -> None:
    await start(bench)
    await bench.hand_in(text="one\n", status=first_status)
    _, second = bench.commit("one\ntwo\n")
    await bench.upload("result.bundle", second)
    await bench.rest()
    spec = await bench.spec()
    assert spec.outcome == ("done" if first_status == "completed" else "failed")
    assert bench.git("show", f"{spec.branch}:work.txt") == "one\ntwo\n"
    if first_status == "completed":
        await bench.hand_in(2, text="one\ntwo\nthree\n")
        await bench.rest()
        assert bench.git("show", f"{spec.branch}:work.txt") == "one\ntwo\nthree\n"
        assert (await bench.boxes())[-1].collected_round == 2


async def test_refused_for_what_is_in_it_then_no_earlier_state_of_it_is_pushed(bench: Bench) -> None:
    number = await start(bench)
    before = bench.github.pulls(bench.name)[0]["head"]["sha"]
    await bench.checkpoint("fine so far\n")
    await bench.hand_in(text="ghp_" + "vT8kQ2mZr5Xw1Nc7Yb4Lp9Hs6Jd3Gf0AeUiB\n")
    await bench.rest()
    assert bench.github.pulls(bench.name)[0]["head"]["sha"] == before
    assert "Not pushed" in bench.status(number)


async def test_words_of_a_result_are_none_that_a_database_holds_then_they_are_shown_without_and_it_counts(
    bench: Bench,
) -> None:
    number = await start(bench)
    await bench.hand_in(
        status="failed", reason="odd\0", detail="Its disk\0 is full.", summary="So far\0.", session_id="s\0" * 100,
        test={"command": "true\0", "exit_code": 1, "output": "\0"},
        evidence=[{"criterion": "C\0", "met": False, "evidence": "\0"}],
        answers=[{"thread": 1, "answer": "\0"}], taken_in=["\0"],
    )  # fmt: skip
    await bench.rest()
    assert (await bench.spec()).state is SpecState.FAILED
    assert "is full." in bench.status(number)
    (task,) = (await tasks(bench)).values()
    assert task.summary == "So far\N{REPLACEMENT CHARACTER}."
