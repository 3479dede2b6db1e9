"""Much happens to one piece of work, and what is told of it comes twice and in any order: it ends as GitHub stands."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from app.db.models import Spec
from app.domain.states import SPEC_LIVE, SpecState
from simulators.github.control import ControlError
from tests.worker.bench import LABEL, Bench
from tests.worker.test_comments import say
from tests.worker.test_life import start
from tests.worker.test_lifecycle_table import listen_to_everything

SEEDS = range(8)
STAGES = ("implementing", "working", "waiting", "in_review", "paused")
WORDS = {SpecState.COMPLETED: "Merged", SpecState.CANCELLED: "Cancelled"}


async def reach(bench: Bench, stage: str) -> int:
    number = await start(bench)
    if stage == "working":
        await bench.report(3)
    if stage in {"waiting", "in_review"}:
        await bench.hand_in(session_id="s-1")
        await bench.rest()
    if stage == "in_review":
        bench.sandboxes.end(bench.sandboxes.newest.name, 0)
    if stage == "paused":
        say(bench, number, "/agent pause")
    await bench.rest()
    await bench.pass_time(15)
    bench.new_deliveries()
    return number


def deeds(bench: Bench, number: int) -> list[Callable[[], Any]]:
    """What people may do to it; some of it can't be done at the moment."""
    github, name, pull = bench.github, bench.name, bench.github.pulls(bench.name)[0]
    at, branch = pull["number"], pull["head"]["ref"]

    def merge() -> None:
        github.set_draft(name, at, "alice", draft=False)
        github.merge_pull(name, at, "alice")

    return [
        merge,
        lambda: github.close_issue(name, number, "alice"),
        lambda: github.reopen_issue(name, number, "alice"),
        lambda: bench.unlabel(number),
        lambda: github.close_pull(name, at, "alice"),
        lambda: github.reopen_pull(name, at, "alice"),
        lambda: github.retarget_pull(name, at, "alice", "next"),
        lambda: github.push(name, "carol", branch, {"carol.txt": f"{len(bench.seen)}\n"}),
        lambda: github.push(name, "carol", branch, {"other.txt": "hers\n"}, force=True),
        lambda: github.delete_branch(name, "alice", branch),
        lambda: github.edit_issue(name, number, "carol", title="Another name"),
    ]


async def hear_shuffled(bench: Bench, chance: random.Random) -> None:
    heard = bench.new_deliveries()
    order = [(one, suffix) for one in heard for suffix in ("", "-again")]
    chance.shuffle(order)
    for one, suffix in order:
        await bench.receive([one], suffix)
        if chance.random() < 0.5:
            await bench.rest(listen=False)
    await bench.rest(listen=False)
    await bench.pass_time(90)


def is_wanted(bench: Bench, number: int) -> bool:
    issue, pull = bench.github.issue(bench.name, number), bench.github.pulls(bench.name)[0]
    labeled = LABEL in {one["name"] for one in issue["labels"]}
    return labeled and issue["state"] == pull["state"] == "open"


def expect_told(bench: Bench, number: int, spec: Spec) -> None:
    """An end that people see everywhere, and nothing left behind."""
    assert spec.concluded_at is not None
    assert WORDS[spec.state] in bench.status(number)
    assert None not in [run["conclusion"] for run in bench.github.check_runs(bench.name)]
    assert bench.sandboxes.sights == {}


@pytest.mark.parametrize("seed", SEEDS)
async def test_much_happens_before_any_of_it_is_heard_then_the_live_state_decides(
    bench: Bench, seed: int
) -> None:
    chance = random.Random(seed)
    listen_to_everything(bench)
    bench.github.create_branch(bench.name, "alice", "next")
    number = await reach(bench, chance.choice(STAGES))
    for deed in chance.choices(deeds(bench, number), k=chance.randint(2, 6)):
        with suppress(ControlError):
            deed()
    await hear_shuffled(bench, chance)
    spec = await bench.spec()
    if bench.github.pulls(bench.name)[0]["merged"]:
        assert spec.state is SpecState.COMPLETED
    else:
        assert (spec.state in SPEC_LIVE) is is_wanted(bench, number)
    assert spec.failures == 0
    if spec.state not in SPEC_LIVE:
        expect_told(bench, number, spec)
