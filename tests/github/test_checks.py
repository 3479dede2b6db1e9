"""The check run `Issuewright`: against the simulated GitHub, over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from app.domain.errors import RetryAt, Unexpected
from app.domain.ports import CheckOutput, CheckRun
from tests.github.conftest import Stage

WORKING = CheckOutput("Working", "Reading the issue", "https://example.org/run/1")
RETRY = (("Retry", "Start this task again", "retry"),)
FAILED = CheckOutput("Failed", "It did not work", "https://example.org/run/1", "failure", RETRY)


async def check(stage: Stage, output: CheckOutput, known_id: int | None = None) -> CheckRun:
    return await stage.gateway.ensure_check_run(stage.repo, stage.head(), "spec_1", output, known_id=known_id)


def runs(stage: Stage) -> list[dict[str, Any]]:
    return [run for run in stage.github.check_runs(stage.name) if run["name"] == "Issuewright"]


async def test_check_run_is_made_once_updated_and_concluded(stage: Stage) -> None:
    made = await check(stage, WORKING)
    assert await check(stage, WORKING) == made
    concluded = await check(stage, FAILED, made.check_run_id)
    assert (concluded.check_run_id, concluded.status, concluded.conclusion) == (
        made.check_run_id,
        "completed",
        "failure",
    )
    await check(stage, FAILED)
    assert len(runs(stage)) == 1
    assert [one["method"] for one in stage.writes()] == ["POST", "PATCH"]


async def test_check_run_applied_but_answered_502_is_found_again(stage: Stage) -> None:
    stage.github.add_fault(method="POST", path="/check-runs$", status=502, apply=True, times=1)
    with pytest.raises(RetryAt):
        await check(stage, WORKING)
    await check(stage, FAILED)
    assert [run["conclusion"] for run in runs(stage)] == ["failure"]


async def test_concluded_check_run_is_followed_by_a_new_one_when_work_starts_again(stage: Stage) -> None:
    first = await check(stage, FAILED)
    second = await check(stage, WORKING, first.check_run_id)
    assert second.check_run_id != first.check_run_id
    assert (await check(stage, FAILED, first.check_run_id)).check_run_id == second.check_run_id
    assert [run["conclusion"] for run in runs(stage)] == ["failure", "failure"]


async def test_two_workers_at_once_leave_one_open_check_run(stage: Stage) -> None:
    stage.github.add_fault(method="POST", path="/check-runs$", delay_s=0.3, times=2)
    other = stage.another_gateway()
    await asyncio.gather(
        *(
            gateway.ensure_check_run(stage.repo, stage.head(), "spec_1", WORKING, known_id=None)
            for gateway in (stage.gateway, other)
        )
    )
    await other.aclose()
    newest = await check(stage, WORKING)
    assert sorted(run["conclusion"] or "open" for run in runs(stage)) == ["neutral", "open"]
    assert newest.check_run_id == max(run["id"] for run in runs(stage))


async def test_new_head_gets_its_own_check_run_and_the_old_one_can_be_concluded(stage: Stage) -> None:
    old_head = stage.head()
    first = await check(stage, WORKING)
    stage.github.push(stage.name, "carol", "main", {"a": "b"})
    second = await check(stage, WORKING, first.check_run_id)
    assert second.head_sha == stage.head() != old_head
    over = CheckOutput("Superseded", "A newer commit is checked", "", "neutral")
    await stage.gateway.ensure_check_run(stage.repo, old_head, "spec_1", over, known_id=first.check_run_id)
    assert {run["id"]: run["conclusion"] for run in runs(stage)} == {
        first.check_run_id: "neutral",
        second.check_run_id: None,
    }


async def test_check_run_of_another_app_is_left_alone(stage: Stage) -> None:
    foreign = stage.github.create_app("Other", "alice", {"checks": "write"}, [])
    stage.github.install(foreign["id"], "alice")
    theirs = stage.github.create_check(stage.name, foreign["id"], "Issuewright", stage.head())
    made = await check(stage, WORKING, theirs["id"])
    assert made.check_run_id != theirs["id"]


@pytest.mark.parametrize(
    "output",
    [
        CheckOutput("t" * 256, "s", ""),
        CheckOutput("t", "s" * 65_536, ""),
        CheckOutput("t", "s", "", "failure", RETRY * 4),
        CheckOutput("t", "s", "", "failure", (("a label that is far too long", "d", "i"),)),
    ],
)
async def test_check_run_beyond_githubs_limits_is_refused_before_it_is_sent(
    stage: Stage, output: CheckOutput
) -> None:
    with pytest.raises(Unexpected):
        await check(stage, output)
    assert stage.writes() == []
