"""Many specs share one installation: GitHub's limits are kept, ends are told soon and exactly, whoever else is busy."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from app.db.effects import record_effect
from app.db.models import GitHubWrite
from app.db.sandboxes import set_sandbox
from app.db.specs import record_fact
from app.domain.pace import HOUR, ROOMS, Urgency
from app.domain.ports import SandboxOrder
from app.domain.states import SANDBOX_LIVE
from tests.worker.bench import Bench
from worker.engine import Engine

SPECS = 50
ALONE = 10
"""So many of them end one by one, ten minutes apart, with all the others at work."""
SURGE = 10
"""So many more end in one moment."""


def moments(bench: Bench) -> list[datetime]:
    """When GitHub, by its own clock, took each write to the repository."""
    return [datetime.fromisoformat(one["time"]) for one in bench.writes()]


def busiest(times: list[datetime], span: timedelta) -> int:
    """The most in any window of that length."""
    most, start = 0, 0
    for end, at in enumerate(times):
        while times[start] <= at - span:
            start += 1
        most = max(most, end - start + 1)
    return most


async def pass_time(bench: Bench, seconds: int, step_s: int) -> None:
    """As `Bench.pass_time`, with GitHub's clock beside ours and agents that always do something."""
    for _ in range(0, seconds, step_s):
        bench.clock.add(step_s)
        await report_all(bench)
        await bench.turn(listen=False)


async def report_all(bench: Bench) -> None:
    rows = [box for box in await bench.boxes() if box.state in SANDBOX_LIVE]
    async with bench.db.write() as session:
        for row in rows:
            await set_sandbox(
                session, row.id, bench.clock(), tools=row.tools + 1, activity="working", last_tool="Bash",
                last_heartbeat_at=bench.clock(), last_work_at=bench.clock(),
            )  # fmt: skip
            await record_fact(session, row.spec_id, bench.clock())


async def hand_in(bench: Bench, name: str) -> None:
    """The result of that sandbox."""
    bench.sandboxes.orders[name] = bench.sandboxes.orders.pop(name)  # the newest is the one that hands in
    await bench.hand_in()
    bench.sandboxes.end(name, 0)


async def start_all(bench: Bench) -> None:
    """Fifty people label an issue at the same moment; until every agent works and every pull request is there."""
    for number in range(SPECS):
        bench.label(bench.open_issue(f"Do thing {number}"))
    await bench.receive(bench.new_deliveries())
    for _ in range(200):
        await pass_time(bench, 5, 5)
        if len(bench.sandboxes.orders) == SPECS and len(bench.github.pulls(bench.name)) == SPECS:
            await report_all(bench)
            return
    raise AssertionError("they never all started")


async def finish(bench: Bench, order: SandboxOrder) -> timedelta:
    """The agent hands in its result; how long it takes until everything about it is told."""
    before, spec_id = bench.clock(), str(order.labels["spec"])
    await hand_in(bench, order.name)
    for _ in range(20):
        await Engine(bench.parts).advance(spec_id)
        if spec_id not in await unfinished(bench):
            break
        bench.clock.add(1)
    return bench.clock() - before


async def unfinished(bench: Bench) -> set[str]:
    """Specs whose end is not told everywhere yet."""
    return {one.id for one in await bench.specs() if one.pull_ready_at is None}


@pytest.mark.load
async def test_fifty_specs_at_once_stay_below_githubs_limits_and_every_end_is_told_soon(
    bench: Bench,
) -> None:
    bench.clock.heard.append(bench.github.advance_clock)
    patient = replace(bench.parts.limits, task_timeout_s=8 * 3600)
    bench.parts = replace(bench.parts, limits=patient)
    await start_all(bench)
    began = len(bench.writes())
    orders = list(bench.sandboxes.orders.values())
    for order in orders[:ALONE]:
        assert await finish(bench, order) < timedelta(seconds=30)
        for _ in range(2):
            await pass_time(bench, 300, 300)
    edits = [
        one for one in bench.writes()[began:] if one["method"] == "PATCH" and "/comments/" in one["path"]
    ]
    assert len(edits) > 2 * SPECS, "there were edits on the way too"
    ended = orders[: ALONE + SURGE]
    for order in ended[ALONE:]:
        await hand_in(bench, order.name)
    await pass_time(bench, 120, 15)
    assert len(await unfinished(bench)) == SPECS - len(ended)
    times = moments(bench)
    assert times[-1] - times[0] > timedelta(hours=1.5)
    assert busiest(times, timedelta(minutes=1)) < 80
    assert busiest(times, timedelta(hours=1)) < 500
    issues = {found.id: found.issue_number for found in await bench.specs()}
    for order in ended:
        assert "Done: ready for review" in bench.status(issues[str(order.labels["spec"])])
    pulls = Counter(pull["draft"] for pull in bench.github.pulls(bench.name))
    assert pulls == {False: len(ended), True: SPECS - len(ended)}
    ends = Counter(run["conclusion"] for run in bench.github.check_runs(bench.name))
    assert ends == {"success": len(ended), "neutral": len(ended), None: SPECS - len(ended)}


BUSY = 2
"""So many specs keep an hour too full for what nobody waits for, whose room is the smallest."""


async def fill_the_hour(bench: Bench) -> None:
    """As if the specs' edits had been written evenly for an hour."""
    count = ROOMS[Urgency.BACKGROUND].per_hour
    async with bench.db.write() as session:
        for number in range(count):
            at = bench.clock() - HOUR * number / count
            session.add(GitHubWrite(installation_id=bench.installation_id, place_at=at, written_at=at))


async def test_labels_and_sub_issues_are_made_although_busy_specs_fill_every_hour_with_edits(
    bench: Bench,
) -> None:
    bench.clock.heard.append(bench.github.advance_clock)
    for number in range(BUSY):
        bench.label(bench.open_issue(f"Do thing {number}"))
    await bench.rest()
    await fill_the_hour(bench)
    repo, now = (bench.installation_id, bench.repo_id), bench.clock()
    async with bench.db.write() as session:
        await record_effect(session, kind="labels", key="labels", repo=repo, payload={}, now=now)
        for number in range(3):
            marker = f"<!-- issuewright:spec=s task=T{number} -->"
            payload = {"issue": 1, "marker": marker, "title": f"T{number}", "body": f"{marker}\nDo."}
            await record_effect(session, kind="sub_issue", key=marker, repo=repo, payload=payload, now=now)
    before = len(bench.writes())
    await pass_time(bench, 120, 30)
    made = [one["path"] for one in bench.writes()[before:] if one["method"] == "POST"]
    assert len([path for path in made if path.endswith("/labels")]) == 3, "one of four was there"
    assert len([path for path in made if path.endswith("/sub_issues")]) == 3
    edits = [one for one in bench.writes()[before:] if one["method"] == "PATCH"]
    assert edits, "edits went on"


def told(bench: Bench, number: int) -> list[datetime]:
    """When the status comment of that issue was written."""
    marker = next(text for text in bench.comments(number) if "part=status" in text).split("\n")[0]
    return [
        datetime.fromisoformat(one["time"])
        for one in bench.writes()
        if "/comments" in one["path"] and str(one["body"]["body"]).startswith(marker)
    ]


async def test_one_spec_alone_is_told_of_every_few_seconds(bench: Bench) -> None:
    bench.clock.heard.append(bench.github.advance_clock)
    number = bench.open_issue()
    bench.label(number)
    await bench.receive(bench.new_deliveries())
    await pass_time(bench, 60, 1)
    gaps = [later - earlier for earlier, later in pairwise(told(bench, number))]
    assert timedelta(seconds=5) <= min(gaps)
    assert max(gaps) <= timedelta(seconds=12)


async def test_end_is_told_at_once_although_an_edit_was_just_made(bench: Bench) -> None:
    number = bench.open_issue()
    bench.label(number)
    await bench.rest()
    await pass_time(bench, 30, 1)
    assert "at work" in bench.status(number)
    await bench.hand_in()
    await bench.turn(listen=False)
    assert "Done: ready for review" in bench.status(number)


async def test_quick_run_makes_few_writes(bench: Bench) -> None:
    number = bench.open_issue()
    bench.label(number)
    await bench.rest()
    await pass_time(bench, 12, 1)
    await bench.hand_in()
    await bench.rest()
    assert "Done: ready for review" in bench.status(number)
    methods = Counter(one["method"] for one in bench.writes() if "/check-runs" in one["path"])
    assert methods == {"POST": 2, "PATCH": 1}, "begun, superseded, and one that is concluded from its start"
    assert len(bench.writes()) <= 13
