"""People merge before a round of their review has ended: its threads are told so."""

from __future__ import annotations

import pytest

from app.domain.states import SpecState
from tests.worker.bench import Bench
from tests.worker.test_reviews import answers, pull_of, ready, review, take_in

TOLD = "Not dealt with: the pull request was merged before the agent was done with this."


@pytest.mark.parametrize("taken_in", [True, False])
async def test_each_thread_is_told_once_whether_the_agent_was_at_it_or_not(
    bench: Bench, taken_in: bool
) -> None:
    await ready(bench)
    made = review(bench, "Two things.", "Say why.", "Say how.")
    await bench.pass_time(30)
    if taken_in:
        assert len(await take_in(bench)) == 1
    bench.github.merge_pull(bench.name, pull_of(bench)["number"], "alice")
    merged = bench.new_deliveries()
    for suffix in ("", "-again"):
        await bench.receive(merged, suffix)
        await bench.rest()
    await bench.pass_time(120)
    assert (await bench.spec()).state is SpecState.COMPLETED
    assert sorted(answers(bench)) == sorted((one["id"], TOLD) for one in made["comments"])


async def test_a_thread_that_was_answered_before_is_told_nothing(bench: Bench) -> None:
    await ready(bench)
    review(bench, "", "Say why.")
    await bench.pass_time(30)
    given = await take_in(bench)
    await bench.hand_in(2, text="why\n", taken_in=[str(one.id) for one in given])
    await bench.rest()
    await bench.pass_time(60)
    before = answers(bench)
    bench.github.merge_pull(bench.name, pull_of(bench)["number"], "alice")
    await bench.pass_time(60)
    assert len(before) == 1
    assert answers(bench) == before
