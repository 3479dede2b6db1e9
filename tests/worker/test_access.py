"""GitHub fails for long, takes our key or a permission away: people are told where that is possible, nothing is lost."""

from __future__ import annotations

from typing import Any

from app.domain.states import SpecState
from simulators.github.rest.manifest import new_key_pair
from tests.worker.bench import Bench
from tests.worker.conftest import PERMISSIONS, PUBLIC_KEY
from tests.worker.test_life import finish, start

ALL = r"^/(?!_sim)"


def reduce(bench: Bench, **levels: str) -> None:
    """The account's owner takes permissions away; an empty level is none."""
    left = {name: level for name, level in ({**PERMISSIONS, **levels}).items() if level}
    bench.github.accept_permissions(bench.installation_id, "alice", left)


async def restore(bench: Bench) -> None:
    bench.github.accept_permissions(bench.installation_id, "alice")
    await hear_installation(bench)


async def hear_installation(bench: Bench) -> None:
    """Deliveries that name an installation and no repository."""
    await bench.receive(
        [
            one
            for one in bench.github.deliveries("installation")
            if one["payload"]["installation"]["id"] == bench.installation_id and one["guid"] not in bench.seen
        ]
    )
    await bench.rest()


def asked(bench: Bench, ending: str) -> list[dict[str, Any]]:
    return [one for one in bench.github.requests() if one["path"].endswith(f"{bench.name}{ending}")]


def checks(bench: Bench) -> list[str | None]:
    return [run["conclusion"] for run in bench.github.check_runs(bench.name)]


async def test_without_checks_the_status_comment_says_so_and_the_work_is_done(bench: Bench) -> None:
    reduce(bench, checks="")
    number = await start(bench)
    await bench.pass_time(60)
    assert "check run could not be written" in bench.status(number)
    assert "needed: checks: read" in bench.status(number)
    await bench.hand_in()
    await bench.rest()
    assert "Done" in bench.status(number)
    assert not bench.github.pulls(bench.name)[0]["draft"]
    assert checks(bench) == []
    await restore(bench)
    assert sorted(map(str, checks(bench))) == ["neutral", "success"]
    assert "could not be written" not in bench.status(number)


async def test_without_issues_check_and_pull_request_say_so_and_the_comment_follows_later(
    bench: Bench,
) -> None:
    reduce(bench, issues="read")
    number = await start(bench)
    await bench.pass_time(120)
    tries = [one for one in asked(bench, f"/issues/{number}/comments") if one["method"] == "POST"]
    assert len(tries) == 1, "a refusal is not asked for again and again"
    [run] = bench.github.check_runs(bench.name)
    assert "status comment on the issue could not be written" in run["output"]["summary"]
    assert "issues: write" in run["output"]["summary"]
    assert "could not be written" in bench.github.pulls(bench.name)[0]["body"]
    await bench.hand_in()
    await bench.rest()
    await bench.pass_time(15)
    assert sorted(map(str, checks(bench))) == ["neutral", "success"]
    assert bench.comments(number) == []
    await restore(bench)
    assert "Done: ready for review" in bench.status(number)


async def test_without_contents_or_pull_requests_it_fails_and_names_the_permission(bench: Bench) -> None:
    reduce(bench, contents="read")
    number = bench.open_issue()
    bench.label(number)
    await bench.rest()
    assert "contents: write" in bench.status(number)
    assert bench.branches() == {"main"}
    reduce(bench, pull_requests="read")
    other = bench.open_issue()
    bench.label(other)
    await bench.rest()
    await bench.pass_time(10)
    assert "pull_requests" in bench.status(other)
    assert {one.state for one in await bench.specs()} == {SpecState.FAILED}
    assert bench.sandboxes.sights == {}


async def test_suspended_mid_run_then_unsuspended_is_told_how_it_ended(bench: Bench) -> None:
    number = await start(bench)
    bench.github.suspend(bench.installation_id, "alice")
    await hear_installation(bench)
    await bench.pass_time(60)
    assert (await bench.spec()).concluded_at is not None
    assert checks(bench) == [None]
    bench.github.unsuspend(bench.installation_id, "alice")
    await hear_installation(bench)
    assert "Cancelled" in bench.status(number)
    assert checks(bench) == ["cancelled"]
    before = len(bench.writes())
    await bench.pass_time(600, 60)
    assert len(bench.writes()) == before


async def test_issue_locked_mid_run_goes_on_on_the_pull_request_and_the_check_run(bench: Bench) -> None:
    number = await start(bench)
    bench.github.add_fault(method="PATCH", path=f"{bench.name}/issues/comments/", status=403,
                           message="Unable to create comment because issue is locked.")  # fmt: skip
    await bench.report(3)
    await bench.pass_time(30)
    await bench.hand_in()
    await bench.rest()
    assert not bench.github.pulls(bench.name)[0]["draft"]
    summaries = [run["output"]["summary"] for run in bench.github.check_runs(bench.name)]
    assert any("issue is locked" in text for text in summaries)
    assert number in {one.issue_number for one in await bench.specs()}


async def test_ten_minutes_of_server_errors_are_sat_out_and_cost_no_attempt(bench: Bench) -> None:
    number = bench.open_issue()
    bench.label(number)
    bench.github.add_fault(path=ALL, status=502)
    await bench.pass_time(300, 15)
    first = len(bench.github.requests())
    await bench.pass_time(300, 15)
    assert len(bench.github.requests()) - first <= 30, "the pauses have grown"
    bench.github.clear_faults()
    # The longest pause is two minutes; a sandbox that says nothing for as long would be lost.
    for _ in range(15):
        if not bench.sandboxes.orders:
            await bench.pass_time(10, 10)
    assert len(bench.sandboxes.orders) == 1
    bench.github.add_fault(path=ALL, status=503)
    await bench.report(1)
    await bench.hand_in()
    await bench.pass_time(600, 20)
    bench.github.clear_faults()
    await bench.pass_time(150, 10)
    assert "Done: ready for review" in bench.status(number)
    assert len(bench.sandboxes.orders) == 1
    found = await bench.spec()
    assert (found.failures, found.deferrals) == (0, 0)


async def test_key_that_github_no_longer_takes_makes_everything_wait_for_the_operator(bench: Bench) -> None:
    number = await start(bench)
    bench.github.update_app(bench.app_id, public_key_pem=new_key_pair()[1])
    bench.github.revoke_tokens()
    other = bench.open_issue()
    bench.label(other)
    await bench.hand_in()
    before = len(bench.github.requests())
    await bench.pass_time(900, 30)
    assert len(bench.github.requests()) - before <= 120, "no hot loop"
    assert {one.state for one in await bench.specs()} == {SpecState.IMPLEMENTING}
    bench.github.update_app(bench.app_id, public_key_pem=PUBLIC_KEY)
    await bench.pass_time(180, 10)
    assert "Done: ready for review" in bench.status(number)
    assert len(await bench.specs()) == 2


async def test_token_that_ends_while_the_agent_works_is_replaced(bench: Bench) -> None:
    number = await start(bench)
    bench.github.advance_clock(3700)
    await finish(bench, number)
