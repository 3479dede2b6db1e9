"""The provider for Daytona, through the real SDK, on a simulated Daytona that runs real commands."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.domain.errors import Denied, Refused, RetryAt
from app.domain.ports import SandboxOrder, SandboxStatus
from app.sandbox.daytona import DaytonaSandboxes
from app.sandbox.daytona_account import Size
from app.sandbox.daytona_making import AUTO_DELETE_MIN, AUTO_STOP_MIN

from .daytona_rig import HASTY, INSTANCE, PACE, Rig, until
from .support import OrderOf, Source

NAME = "iw-inst1-sbx_1"


@pytest.fixture
def sandboxes(rig: Rig) -> DaytonaSandboxes:
    return rig.provider()


@pytest.fixture
def order(order_of: OrderOf) -> SandboxOrder:
    return remote(order_of("report"))


def remote(order: SandboxOrder) -> SandboxOrder:
    labels = {"issuewright": INSTANCE, "spec": "spec_1", "sandbox": "sbx_1"}
    return replace(order, name=NAME, labels=labels, memory_gb=4, cpu=2, disk_gb=8)


async def reported(provider: DaytonaSandboxes) -> dict[str, Any]:
    async def look() -> bytes:
        return await provider.fetch_log(NAME)

    found: dict[str, Any] = json.loads(await until(look, "a report"))
    return found


async def test_ordered_sandbox_runs_the_payload_on_its_branch_and_is_gone_after_deletion(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder
) -> None:
    seen = await rig.made(sandboxes, order)
    assert seen.status is SandboxStatus.RUNNING
    found = await reported(sandboxes)
    assert found["head"][0] == order.start_sha
    assert "refs/heads/feature/7-thing" in found["branches"]
    assert "refs/remotes/origin/main" in found["branches"]
    assert found["status"] == ""
    assert found["files"] == {"README.md": "hello\n", "src/main.py": "print(1)\n"}
    assert found["inputs"] == ["prompt.md", "system.md"]
    assert found["environment"]["CALLBACK_URL"] == "https://app.example.org"
    assert found["environment"]["ANTHROPIC_BASE_URL"].endswith("/api/v1/sandboxes/sbx_1/model")
    assert found["environment"]["SPEC_ID"] == "spec_1"

    assert [sight.name for sight in await sandboxes.list_owned()] == [NAME]
    await sandboxes.ensure_deleted(NAME)
    await until(lambda: not rig.machines(), "the end of the machine")
    await sandboxes.ensure_deleted(NAME)
    assert (await sandboxes.fetch_sight(NAME)).status is SandboxStatus.ABSENT
    assert await sandboxes.list_owned() == []
    assert await sandboxes.fetch_log(NAME) == b""


async def test_token_is_a_private_file_and_stands_nowhere_else(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder
) -> None:
    await rig.made(sandboxes, order)
    found = await reported(sandboxes)
    assert (found["token"], found["mode"]) == (order.token, "0o600")
    assert order.token not in json.dumps(found["environment"])
    assert order.token not in json.dumps(rig.machines())
    machine = await sandboxes.client.find(NAME)
    session = await sandboxes.client.call(lambda _: machine.process.get_session("agent"))
    assert order.token not in session.commands[0].command


async def test_machine_ends_itself_when_everybody_is_gone(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder
) -> None:
    await rig.made(sandboxes, replace(order, time_limit_s=3600))
    machine = rig.machines()[0]
    assert (machine["autoStopInterval"], machine["autoDeleteInterval"]) == (AUTO_STOP_MIN, AUTO_DELETE_MIN)
    rig.do("clock/advance", seconds=(60 + AUTO_STOP_MIN + AUTO_DELETE_MIN + 1) * 60)
    await until(lambda: not rig.machines(), "the end of its time to live")


async def test_base_branchs_agent_configuration_is_laid_over_the_work_branch(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder, source: Source
) -> None:
    base = source.commit({"CLAUDE.md": b"base\n", "AGENTS.md": b"only base\n"})
    start = source.commit(
        {"CLAUDE.md": b"branch\n", ".claude/x": b"evil\n", "AGENTS.md": None}, branch="work"
    )
    await rig.made(sandboxes, replace(order, start_sha=start, agent_config_sha=base))
    found = await reported(sandboxes)
    assert found["head"][0] == start
    assert found["files"]["CLAUDE.md"] == "base\n"
    assert found["files"]["AGENTS.md"] == "only base\n"
    assert ".claude/x" not in found["files"]
    assert found["status"] == ""


async def test_agents_exit_is_seen_with_its_code(
    rig: Rig, sandboxes: DaytonaSandboxes, order_of: OrderOf
) -> None:
    await rig.made(sandboxes, remote(order_of("exit 7")))

    async def exited() -> int | None:
        seen = await sandboxes.fetch_sight(NAME)
        return seen.exit_code if seen.status is SandboxStatus.EXITED else None

    assert await until(exited, "the exit") == 7


@pytest.mark.parametrize(("act", "code"), [("report", 143), ("deaf", 137)])
async def test_asked_to_stop_it_ends_within_its_grace(
    rig: Rig, sandboxes: DaytonaSandboxes, order_of: OrderOf, act: str, code: int
) -> None:
    await rig.made(sandboxes, remote(order_of(act)))

    async def started() -> bytes:
        return await sandboxes.fetch_log(NAME)

    async def stopped() -> int | None:
        return (await sandboxes.fetch_sight(NAME)).exit_code

    await until(started, "a sign of life")
    await sandboxes.ensure_stopped(NAME, 0.5)
    assert await until(stopped, "the end") == code


async def test_log_is_read_on_from_an_offset_also_when_it_is_no_text(
    rig: Rig, sandboxes: DaytonaSandboxes, order_of: OrderOf
) -> None:
    await rig.made(sandboxes, remote(order_of("binary")))

    async def all_there() -> bool:
        return len(await sandboxes.fetch_log(NAME)) == 1024

    await until(all_there, "the output")
    assert await sandboxes.fetch_log(NAME, 200, 100) == (bytes(range(256)) * 4)[200:300]
    assert await sandboxes.fetch_log(NAME, 5000) == b""
    assert await sandboxes.fetch_log_tail(NAME, 100) == bytes(range(156, 256))
    assert await sandboxes.fetch_log_tail(NAME, 100_000) == bytes(range(256)) * 4


async def test_create_whose_answer_is_lost_is_found_by_name_and_there_is_one(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder
) -> None:
    rig.do("faults/add", method="POST", path="/api/sandbox$", times=1, drop=True, apply=True)
    assert (await rig.made(sandboxes, order)).status is SandboxStatus.RUNNING
    assert len(rig.machines()) == 1


async def test_create_answered_late_is_found_by_name_and_there_is_one(rig: Rig, order: SandboxOrder) -> None:
    rig.do("faults/add", method="POST", path="/api/sandbox$", times=1, delay_s=2)
    with pytest.raises(RetryAt):
        await rig.made(rig.provider(pace=HASTY), order)
    assert (await rig.made(rig.provider(), order)).status is SandboxStatus.RUNNING
    assert len(rig.machines()) == 1


@pytest.mark.parametrize("state", ["error", "build_failed"])
async def test_machine_that_fails_while_it_is_made_is_deleted_and_told(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder, state: str
) -> None:
    rig.do("machines/next", state=state, reason="no runner would take it")
    seen = await rig.made(sandboxes, order)
    assert seen.status is SandboxStatus.ERROR
    assert "no runner would take it" in seen.detail
    await until(lambda: not rig.machines(), "the end of the machine")


async def test_answer_200_with_an_error_state_is_a_failure(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder
) -> None:
    rig.do("delays/set", create_s=0)
    rig.do("machines/next", state="error", reason="out of disk")
    seen = await rig.made(sandboxes, order)
    assert (seen.status, "out of disk" in seen.detail) == (SandboxStatus.ERROR, True)
    await until(lambda: not rig.machines(), "the end of the machine")


async def test_machine_stuck_in_creating_is_given_up_and_deleted(rig: Rig, order: SandboxOrder) -> None:
    rig.do("machines/next", state="stuck")
    seen = await rig.made(rig.provider(pace=HASTY), order)
    assert (seen.status, "still creating" in seen.detail) == (SandboxStatus.ERROR, True)
    await until(lambda: not rig.machines(), "the end of the machine")


async def test_machine_stuck_in_creating_is_given_up_by_its_age_however_often_somebody_else_goes_on_with_it(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder
) -> None:
    rig.do("machines/next", state="stuck")
    assert (await sandboxes.ensure_created(order)).status is SandboxStatus.CREATING
    await until(rig.machines, "the machine")
    await sandboxes.aclose()
    pace = replace(PACE, start_s=3600)
    young = DaytonaSandboxes(sandboxes.account, rig.home, pace=pace, payload=rig.payload)
    rig.providers.append(young)
    assert (await young.ensure_created(order)).status is SandboxStatus.CREATING
    later = DaytonaSandboxes(
        sandboxes.account, rig.home, clock=lambda: datetime.now(UTC) + timedelta(hours=2), pace=pace,
        payload=rig.payload,
    )  # fmt: skip
    rig.providers.append(later)
    seen = await rig.made(later, order)
    assert (seen.status, "still creating" in seen.detail) == (SandboxStatus.ERROR, True)
    await until(lambda: not rig.machines(), "the end of the machine")


async def test_daytonas_clock_is_hours_behind_then_a_machine_that_was_just_made_has_its_time(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder
) -> None:
    provider = DaytonaSandboxes(
        sandboxes.account, rig.home, clock=lambda: datetime.now(UTC) + timedelta(hours=2), pace=PACE,
        payload=rig.payload,
    )  # fmt: skip
    rig.providers.append(provider)
    rig.do("delays/set", create_s=1)
    assert (await rig.made(provider, order)).status is SandboxStatus.RUNNING


async def test_machine_stuck_in_destroying_is_neither_waited_for_nor_deleted_again(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder, caplog: pytest.LogCaptureFixture
) -> None:
    await rig.made(sandboxes, order)
    rig.do("destroying/stick")
    await sandboxes.ensure_deleted(NAME)
    await sandboxes.ensure_deleted(NAME)
    assert len(rig.asked("DELETE", "")) == 1
    provider = DaytonaSandboxes(
        sandboxes.account, rig.home, clock=lambda: datetime.now(UTC) + timedelta(hours=1), pace=PACE
    )
    rig.providers.append(provider)
    assert await provider.list_owned() == []
    assert "still destroying" in caplog.text


async def test_inactive_snapshot_is_activated_once(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder
) -> None:
    rig.do("snapshots/set", name="ai-agent-dev-light", state="inactive")
    assert (await rig.made(sandboxes, order)).status is SandboxStatus.RUNNING
    assert len(rig.asked("POST", "/activate")) == 1


async def test_inactive_snapshot_on_a_tier_with_a_fixed_network_is_activated_and_no_allow_list_is_set(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder
) -> None:
    rig.do("tier/set", tier=1)
    rig.do("snapshots/set", name="ai-agent-dev-light", state="inactive")
    assert (await rig.made(sandboxes, order)).status is SandboxStatus.RUNNING
    assert len(rig.asked("POST", "/activate")) == 1


async def test_snapshot_that_somebody_else_has_just_activated_is_used(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder
) -> None:
    asleep = "Snapshot ai-agent-dev-light is inactive"
    rig.do("faults/add", method="POST", path="/api/sandbox$", times=1, status=400, message=asleep)
    assert (await rig.made(sandboxes, order)).status is SandboxStatus.RUNNING


async def test_snapshot_that_stays_inactive_is_activated_once_and_told(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder
) -> None:
    rig.do("snapshots/set", name="ai-agent-dev-light", state="inactive")
    asleep = "Snapshot ai-agent-dev-light is inactive"
    rig.do("faults/add", method="POST", path="/api/sandbox$", status=400, message=asleep)
    with pytest.raises(Refused, match="inactive"):
        await rig.made(sandboxes, order)
    assert len(rig.asked("POST", "/activate")) == 1


async def test_missing_snapshot_is_told_with_what_to_do(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder
) -> None:
    rig.do("snapshots/set", name="ai-agent-dev-light", state="removed")
    with pytest.raises(Denied, match="build-image"):
        await rig.made(sandboxes, order)
    probe = await sandboxes.probe()
    assert (probe.ok, "build-image" in probe.detail) == (False, True)


async def test_rate_limit_is_kept_as_its_header_says(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder
) -> None:
    rig.do("limits/set", sandbox_create=0)
    with pytest.raises(RetryAt) as caught:
        await rig.made(sandboxes, order)
    assert timedelta(seconds=50) < caught.value.at - datetime.now(UTC) <= timedelta(seconds=60)
    assert len(rig.asked("POST", "/api/sandbox")) == 1


async def test_used_up_quota_waits_without_haste(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder
) -> None:
    rig.do("quota/set", disk=1)
    with pytest.raises(RetryAt, match="Total disk limit exceeded") as caught:
        await rig.made(sandboxes, order)
    assert caught.value.at - datetime.now(UTC) > timedelta(seconds=50)
    assert rig.machines() == []


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_provider_down_is_waited_for(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder, status: int
) -> None:
    rig.do("faults/add", path="/api/", status=status)
    with pytest.raises(RetryAt):
        await sandboxes.probe()
    with pytest.raises(RetryAt):
        await rig.made(sandboxes, order)
    rig.do("faults/clear")
    assert (await rig.made(sandboxes, order)).status is SandboxStatus.RUNNING


async def test_wrong_key_is_told(rig: Rig, order: SandboxOrder) -> None:
    sandboxes = rig.provider(api_key="expired")
    assert "DAYTONA_API_KEY" in (await sandboxes.probe()).detail
    with pytest.raises(Denied) as caught:
        await sandboxes.ensure_created(order)
    assert caught.value.reason == "sandbox_key"
    assert "expired" not in str(caught.value)


async def test_other_size_than_the_snapshots_needs_an_image(rig: Rig, order: SandboxOrder) -> None:
    other = rig.provider(asked_size=Size(memory_gb=8, cpu=4, disk_gb=10))
    with pytest.raises(Refused, match="SANDBOX_IMAGE"):
        await rig.made(other, order)
    same = rig.provider(asked_size=Size(memory_gb=4, cpu=2, disk_gb=8))
    assert (await same.probe()).ok
    image = rig.provider(snapshot="", image="registry.example.org/agent:1")
    assert (
        await rig.made(image, replace(order, memory_gb=8, cpu=4, disk_gb=10))
    ).status is SandboxStatus.RUNNING
    machine = rig.machines()[0]
    assert (machine["memory"], machine["cpu"], machine["disk"]) == (8, 4, 10)


async def test_too_large_size_is_refused(rig: Rig, order: SandboxOrder) -> None:
    image = rig.provider(snapshot="", image="registry.example.org/agent:1")
    with pytest.raises(Refused, match="exceeds maximum"):
        await rig.made(image, replace(order, memory_gb=64))


async def test_network_is_closed_but_for_the_app_and_the_operators_hosts(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder
) -> None:
    await rig.made(sandboxes, replace(order, allow_hosts=("pypi.example.org", "*.example.net")))
    machine = rig.machines()[0]
    assert machine["domainAllowList"] == "app.example.org,pypi.example.org,*.example.net"


async def test_tier_with_a_fixed_network_gets_no_allow_list(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder, caplog: pytest.LogCaptureFixture
) -> None:
    rig.do("tier/set", tier=1)
    assert (await rig.made(sandboxes, order)).status is SandboxStatus.RUNNING
    assert rig.machines()[0]["domainAllowList"] is None
    assert "fixed network" in caplog.text


async def test_worker_that_dies_while_making_is_followed_by_one_that_goes_on(
    rig: Rig, order: SandboxOrder
) -> None:
    rig.do("faults/add", path="bulk-upload", times=1, status=502)
    first, second = rig.provider(), rig.provider()
    with pytest.raises(RetryAt):
        await rig.made(first, order)
    await first.aclose()
    assert (await second.fetch_sight(NAME)).status is SandboxStatus.CREATING
    assert (await rig.made(second, order)).status is SandboxStatus.RUNNING
    assert len(rig.machines()) == 1
    assert len(rig.asked("POST", "/api/sandbox")) == 1


async def test_two_workers_making_the_same_sandbox_start_one_agent(rig: Rig, order: SandboxOrder) -> None:
    first, second = rig.provider(), rig.provider()
    for provider in (first, second, first, second):
        await provider.ensure_created(order)
    assert (await rig.made(first, order)).status is SandboxStatus.RUNNING
    assert (await rig.made(second, order)).status is SandboxStatus.RUNNING
    assert len(rig.machines()) == 1
    assert (await reported(first))["token"] == order.token


async def test_working_agent_is_kept_alive_past_the_idle_timer(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder
) -> None:
    await rig.made(sandboxes, replace(order, time_limit_s=36_000))
    for _ in range(3):
        rig.do("clock/advance", seconds=(AUTO_STOP_MIN - 1) * 60)
        assert (await sandboxes.fetch_sight(NAME)).status is SandboxStatus.RUNNING
    rig.do("clock/advance", seconds=(AUTO_STOP_MIN + 1) * 60)

    async def halted() -> bool:
        return (await sandboxes.fetch_sight(NAME)).status is SandboxStatus.ERROR

    await until(halted, "the stop of one that nobody looks after")


async def test_dead_toolbox_of_a_started_machine_leaves_the_verdict_to_the_heartbeat(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder
) -> None:
    await rig.made(sandboxes, order)
    rig.do("machines/kill", machine=NAME)
    assert (await sandboxes.fetch_sight(NAME)).status is SandboxStatus.RUNNING
    rig.do("machines/state", machine=NAME, state="stopped")
    assert (await sandboxes.fetch_sight(NAME)).status is SandboxStatus.ERROR
    await sandboxes.ensure_deleted(NAME)


async def test_state_that_is_not_known_yet_is_no_end(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder
) -> None:
    await rig.made(sandboxes, order)
    rig.do("machines/state", machine=NAME, state="hibernating")
    assert (await sandboxes.fetch_sight(NAME)).status is SandboxStatus.CREATING


async def test_sibling_instances_sandboxes_are_neither_listed_nor_touched(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder
) -> None:
    sibling = rig.provider(instance="inst2")
    await rig.made(sibling, replace(order, name="iw-inst2-sbx_9", labels={"issuewright": "inst2"}))
    assert await sandboxes.list_owned() == []
    assert [sight.name for sight in await sibling.list_owned()] == ["iw-inst2-sbx_9"]


async def test_deleted_while_it_is_made_nothing_stays(
    rig: Rig, sandboxes: DaytonaSandboxes, order: SandboxOrder
) -> None:
    rig.do("delays/set", create_s=1.0)
    assert (await sandboxes.ensure_created(order)).status is SandboxStatus.CREATING
    await sandboxes.ensure_stopped(NAME, 5)
    await until(lambda: not rig.machines(), "the end of the machine")


async def test_foreign_variables_are_refused(sandboxes: DaytonaSandboxes, order: SandboxOrder) -> None:
    with pytest.raises(Refused, match="GITHUB_TOKEN"):
        await sandboxes.ensure_created(replace(order, environment={"GITHUB_TOKEN": "x"}))
