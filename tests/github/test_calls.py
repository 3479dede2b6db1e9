"""Limits, broken answers, redirects, lost credentials: what every call does about them."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from app.domain.errors import Denied, OutsideError, RetryAt, Unexpected
from app.domain.ids import IssueNumber
from app.github.tokens import PERMISSIONS, Purpose
from tests.github.conftest import Stage

LABEL = (("agent", "5319e7", "Starts work"),)


def minted(stage: Stage) -> int:
    return len(stage.requests("/access_tokens"))


async def test_many_callers_at_once_share_one_token(stage: Stage) -> None:
    stage.github.add_fault(method="POST", path="access_tokens", delay_s=0.1)
    await asyncio.gather(*(stage.gateway.fetch_repository(stage.repo) for _ in range(20)))
    assert minted(stage) == 1


async def test_token_is_narrowed_to_the_repository_and_what_is_needed(stage: Stage) -> None:
    await stage.gateway.fetch_repository(stage.repo)
    [request] = stage.requests("/access_tokens")
    assert request["body"] == {
        "repository_ids": [stage.repo.repo_id],
        "permissions": dict(PERMISSIONS[Purpose.WORK]),
    }


async def test_token_near_its_end_is_replaced_before_use(stage: Stage) -> None:
    await stage.gateway.fetch_repository(stage.repo)
    stage.clock.ahead = timedelta(minutes=49)
    stage.github.skew_clock(49 * 60)
    await stage.gateway.fetch_repository(stage.repo)
    assert minted(stage) == 1
    stage.clock.ahead = timedelta(minutes=51)
    stage.github.skew_clock(51 * 60)
    await stage.gateway.fetch_repository(stage.repo)
    stage.github.skew_clock(0)
    assert minted(stage) == 2


@pytest.mark.parametrize("ahead_s", [3600, -3600], ids=["GitHub ahead", "GitHub behind"])
async def test_clock_an_hour_off_then_the_first_refusal_tells_and_the_calls_go_on(
    stage: Stage, ahead_s: int
) -> None:
    stage.github.skew_clock(ahead_s)
    stage.github.advance_clock(ahead_s)
    try:
        with capture_logs() as told:
            await stage.gateway.fetch_repository(stage.repo)
            await stage.gateway.ensure_labels(stage.repo, LABEL)
        assert [request["status"] for request in stage.requests("/access_tokens")] == [401, 201]
        [warning] = [line for line in told if line["event"] == "clock.differs"]
        assert warning["log_level"] == "warning"
        assert abs(warning["ahead_of_github_s"] + ahead_s) <= 2
        stage.github.skew_clock(0)
        stage.github.advance_clock(-ahead_s)
        assert await stage.gateway.fetch_installation_repositories(stage.repo.installation_id)
    finally:
        stage.github.skew_clock(0)


async def test_clock_an_hour_off_then_calls_that_are_refused_at_once_all_go_on(stage: Stage) -> None:
    stage.github.skew_clock(3600)
    stage.github.advance_clock(3600)
    try:
        with capture_logs() as told:
            await asyncio.gather(*(stage.gateway.fetch_hook_deliveries(None) for _ in range(4)))
        assert sorted(request["status"] for request in stage.requests("/app/hook/deliveries")) == [
            *[200] * 4,
            *[401] * 4,
        ]
        assert [line["event"] for line in told].count("clock.differs") == 1
    finally:
        stage.github.skew_clock(0)
        stage.github.advance_clock(-3600)


async def test_credentials_are_refused_at_the_right_time_then_nothing_is_signed_again(stage: Stage) -> None:
    stage.github.add_fault(path="/access_tokens", status=401, message="A JSON web token could not be decoded")
    with pytest.raises(Denied, match="decoded"):
        await stage.gateway.fetch_repository(stage.repo)
    assert len(stage.requests("/access_tokens")) == 1


async def test_revoked_token_is_replaced_once(stage: Stage) -> None:
    await stage.gateway.fetch_repository(stage.repo)
    stage.github.revoke_tokens()
    await stage.gateway.ensure_labels(stage.repo, LABEL)
    assert minted(stage) == 2
    assert stage.labels().count("agent") == 1


async def test_second_refusal_of_a_token_ends_the_attempt(stage: Stage) -> None:
    stage.github.add_fault(path="/repos/", token="installation", status=401, message="Bad credentials")
    with pytest.raises(Denied) as denied:
        await stage.gateway.fetch_issue(stage.repo, IssueNumber(1))
    assert denied.value.reason == "credentials"
    assert minted(stage) == 2


async def test_no_token_or_key_shows_in_errors_or_representations(stage: Stage) -> None:
    await stage.gateway.fetch_repository(stage.repo)
    gateway = stage.gateway
    shown = [repr(gateway), repr(vars(gateway)), repr(stage.access), repr(vars(gateway._api.tokens))]
    stage.github.add_fault(path="/issues/", drop=True)
    with pytest.raises(OutsideError) as caught:
        await gateway.fetch_issue(stage.repo, IssueNumber(1))
    shown += [repr(caught.value), repr(caught.value.__cause__)]
    assert "ghs_" not in " ".join(shown)
    assert "PRIVATE KEY" not in " ".join(shown)


async def test_read_is_tried_again_after_server_errors_and_lost_connections(stage: Stage) -> None:
    stage.github.add_fault(method="GET", path=f"/repos/{stage.name}$", status=502, times=1)
    stage.github.add_fault(method="GET", path=f"/repos/{stage.name}$", drop=True, times=1)
    assert (await stage.gateway.fetch_repository(stage.repo)).repo_id == stage.repo.repo_id


async def test_read_that_keeps_failing_is_put_off(stage: Stage) -> None:
    stage.github.add_fault(method="GET", path=f"/repos/{stage.name}$", status=503)
    with pytest.raises(RetryAt) as later:
        await stage.gateway.fetch_repository(stage.repo)
    assert later.value.scope == "call"
    assert len(stage.requests(f"/repos/{stage.name}")) == 3


async def test_write_is_never_repeated_by_itself(stage: Stage) -> None:
    stage.github.add_fault(method="POST", path="/labels$", status=502)
    with pytest.raises(RetryAt):
        await stage.gateway.ensure_labels(stage.repo, LABEL)
    assert len([one for one in stage.requests("/labels") if one["method"] == "POST"]) == 1


async def test_cut_off_answer_is_no_success(stage: Stage) -> None:
    stage.github.add_fault(method="GET", path=f"/repos/{stage.name}$", truncate=50)
    with pytest.raises((Unexpected, RetryAt)):
        await stage.gateway.fetch_repository(stage.repo)


async def test_secondary_limit_silences_the_installation_until_its_time(stage: Stage) -> None:
    stage.github.add_fault(method="POST", path="/labels$", secondary=True, headers={"Retry-After": "90"})
    with pytest.raises(RetryAt) as later:
        await stage.gateway.ensure_labels(stage.repo, LABEL)
    assert later.value.scope == "installation"
    assert 85 <= (later.value.at - stage.clock()).total_seconds() <= 90
    before = len(stage.requests())
    for call in (stage.gateway.fetch_repository(stage.repo), stage.gateway.ensure_labels(stage.repo, LABEL)):
        with pytest.raises(RetryAt):
            await call
    assert len(stage.requests()) == before


async def test_primary_limit_waits_for_its_reset(stage: Stage) -> None:
    await stage.gateway.fetch_repository(stage.repo)
    stage.github.exhaust_limit(600, stage.installation_id)
    with pytest.raises(RetryAt) as later:
        await stage.gateway.fetch_repository(stage.repo)
    assert later.value.scope == "installation"
    assert 590 <= (later.value.at - stage.clock()).total_seconds() <= 602


async def test_redirect_to_another_host_is_not_followed(stage: Stage) -> None:
    stage.github.add_fault(
        method="GET",
        path=f"/repos/{stage.name}$",
        status=301,
        headers={"Location": "http://localhost:1/repositories/1"},
    )
    with pytest.raises(Unexpected):
        await stage.gateway.fetch_repository(stage.repo)


async def test_redirect_in_a_circle_ends(stage: Stage) -> None:
    where = f"{stage.access.api_url}/repos/{stage.name}"
    stage.github.add_fault(
        method="GET", path=f"/repos/{stage.name}$", status=302, headers={"Location": where}
    )
    with pytest.raises(Unexpected):
        await stage.gateway.fetch_repository(stage.repo)


async def test_every_call_is_counted_and_every_write_passes_the_gate(stage: Stage) -> None:
    await stage.gateway.ensure_labels(stage.repo, LABEL)
    asked = [call for call in stage.calls if call.installation_id is not None]
    assert [(call.write, call.status) for call in asked] == [(False, 200), (True, 201)]
    assert (stage.pace.reads, stage.pace.writes) == (1, 1)
    assert len(stage.calls) == 3  # and the token


async def test_older_server_is_asked_for_the_version_it_knows(stage: Stage) -> None:
    assert stage.access.api_version == "2022-11-28"
    assert stage.access.graphql_url == f"{stage.access.api_url}/graphql"
