"""What an agent on Daytona had ready when nobody looked after it any more: found in its machine, whatever became of that."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.domain.errors import OutsideError, RetryAt, Unexpected
from app.domain.ports import SandboxOrder, SandboxSight, SandboxStatus
from app.domain.remote import DirectModel, Left
from app.sandbox.daytona import DaytonaSandboxes
from app.sandbox.daytona_making import AUTO_STOP_MIN
from sandbox_payload.wire.left import SPOOL_FILES

from .daytona_rig import HASTY, INSTANCE, Rig, until
from .support import OrderOf

NAME = "iw-inst1-sbx_1"
FILES = ("kept.bundle", "work.bundle", "transcript.tar.gz", "manifest.json")


@pytest.fixture
def order(order_of: OrderOf) -> SandboxOrder:
    return leaving(order_of, *FILES)


def leaving(order_of: OrderOf, *files: str) -> SandboxOrder:
    """Of a stand-in that leaves those files, the newest first, and stays."""
    labels = {"issuewright": INSTANCE, "spec": "spec_1", "sandbox": "sbx_1"}
    model = DirectModel("operator", "https://models.example.org", "sk-ant-canary")
    return replace(
        order_of(" ".join(["leave", *files])), name=NAME, labels=labels, memory_gb=4, cpu=2, disk_gb=8, direct_model=model,
    )  # fmt: skip


async def left_alone(rig: Rig, provider: DaytonaSandboxes, order: SandboxOrder) -> None:
    """Made, at work, and then stopped by Daytona because nobody talked to it."""
    assert (await rig.made(provider, order)).status is SandboxStatus.RUNNING

    async def there() -> bool:
        return b"left" in await provider.fetch_log(NAME)

    await until(there, "the files")
    rig.do("clock/advance", seconds=AUTO_STOP_MIN * 60 + 1)
    await until(lambda: rig.machines()[0]["state"] == "stopped", "the stop")


def contents(left: Left) -> dict[str, str]:
    """Which file of the machine came as what."""
    found = {
        "checkpoint": left.checkpoint, "transcript": left.transcript, "result": left.result, "manifest": left.manifest,
    }  # fmt: skip
    return {name: path.read_text().split(" ")[0] for name, path in found.items() if path is not None}


@pytest.mark.parametrize("link", ["http", "relay"])
async def test_stopped_while_nobody_looked_then_its_files_are_brought_and_nothing_in_it_runs_again(
    rig: Rig, order: SandboxOrder, tmp_path: Path, link: str
) -> None:
    provider = rig.provider(link=link)
    await left_alone(rig, provider, order)
    assert (await provider.fetch_sight(NAME)).status is SandboxStatus.ERROR
    assert "stopped" in (await provider.fetch_sight(NAME)).detail
    left = await provider.save_left(NAME, tmp_path / "left")
    assert contents(left) == {
        "checkpoint": "kept.bundle", "transcript": "transcript.tar.gz", "result": "work.bundle",
        "manifest": "manifest.json",
    }  # fmt: skip
    assert left.relayed is (link == "relay")
    assert left.checkpoint is not None
    assert left.checkpoint.read_text() == "kept.bundle as it was left\n" * 1000
    assert await provider.fetch_file(NAME, "starts", 100) == b"started\n", "the agent was started once"
    assert b"left" in await provider.fetch_log(NAME), "its log can be read too"
    await ended_for_everybody(rig, provider, order)


async def ended_for_everybody(rig: Rig, provider: DaytonaSandboxes, order: SandboxOrder) -> None:
    """A machine that was started for its files counts as ended, also for a worker that would make it."""
    another = rig.provider()
    sights: list[SandboxSight] = [await provider.fetch_sight(NAME), await another.ensure_created(order)]
    for seen in sights:
        assert (seen.status, seen.exit_code) == (SandboxStatus.EXITED, None)
        assert "stopped" in seen.detail
    assert len(rig.machines()) == 1


async def test_newer_bundle_of_the_two_is_the_work(rig: Rig, order_of: OrderOf, tmp_path: Path) -> None:
    provider = rig.provider()
    await left_alone(rig, provider, leaving(order_of, "work.bundle", "kept.bundle"))
    assert contents(await provider.save_left(NAME, tmp_path / "left")) == {
        "checkpoint": "work.bundle", "result": "work.bundle",
    }  # fmt: skip


async def test_its_newest_events_are_brought_in_their_order_and_nothing_else_that_lies_there(
    rig: Rig, order_of: OrderOf, tmp_path: Path
) -> None:
    provider = rig.provider()
    segments = [f"spool/{number:012d}.jsonl" for number in (901, 1, 101, 301, 201, 401)]
    others = ["spool/acknowledged", "spool/x.jsonl", "spool/000000000001.jsonl.new"]
    await left_alone(rig, provider, leaving(order_of, *segments, *others))
    left = await provider.save_left(NAME, tmp_path / "left")
    assert [path.read_text().split(" ")[0] for path in left.spool] == sorted(segments)[-SPOOL_FILES:]
    assert contents(left) == {}


async def test_asked_for_twice_at_once_then_the_machine_is_started_once_and_both_have_the_files(
    rig: Rig, order: SandboxOrder, tmp_path: Path
) -> None:
    first, second = rig.provider(), rig.provider()
    await left_alone(rig, first, order)
    rig.do("delays/set", create_s=0.5)
    assert contents(await first.save_left(NAME, tmp_path / "a")) == contents(
        await second.save_left(NAME, tmp_path / "b")
    )
    assert len([one for one in rig.asked("POST", "/start") if one["status"] == 200]) == 1


async def test_answer_to_the_start_is_lost_then_it_is_seen_to_have_started(
    rig: Rig, order: SandboxOrder, tmp_path: Path
) -> None:
    provider = rig.provider()
    await left_alone(rig, provider, order)
    rig.do("faults/add", method="POST", path="/start$", times=1, drop=True, apply=True)
    assert "checkpoint" in contents(await provider.save_left(NAME, tmp_path / "left"))


async def test_toolbox_breaks_off_then_it_is_read_again(
    rig: Rig, order: SandboxOrder, tmp_path: Path
) -> None:
    provider = rig.provider()
    await left_alone(rig, provider, order)
    rig.do("faults/add", method="POST", path="/files/bulk-download$", times=1, drop=True)
    rig.do("faults/add", method="POST", path="/process/execute$", times=1, status=502, message="")
    assert len(contents(await provider.save_left(NAME, tmp_path / "left"))) == 4


async def test_no_room_to_start_it_then_it_stays_as_it_is_until_there_is(
    rig: Rig, order: SandboxOrder, tmp_path: Path
) -> None:
    provider = rig.provider()
    await left_alone(rig, provider, order)
    rig.do("quota/set", cpu=1)
    with pytest.raises(RetryAt, match="quota"):
        await provider.save_left(NAME, tmp_path / "left")
    assert rig.machines()[0]["state"] == "stopped"
    rig.do("quota/set", cpu=10)
    assert len(contents(await provider.save_left(NAME, tmp_path / "left"))) == 4


async def test_machine_that_never_starts_or_never_answers_is_given_up(
    rig: Rig, order: SandboxOrder, tmp_path: Path
) -> None:
    provider = rig.provider(pace=replace(HASTY, reread_s=0.05))
    await left_alone(rig, provider, order)
    rig.do("machines/state", machine=NAME, state="starting")
    with pytest.raises(Unexpected, match="starting"):
        await provider.save_left(NAME, tmp_path / "left")
    rig.do("machines/state", machine=NAME, state="started")  # and dead inside
    with pytest.raises(Unexpected, match="can't be read"):
        await provider.save_left(NAME, tmp_path / "left")
    rig.do("machines/state", machine=NAME, state="error")
    assert contents(await provider.save_left(NAME, tmp_path / "left")) == {}


async def test_machine_is_gone_or_left_nothing_then_there_is_nothing(
    rig: Rig, order_of: OrderOf, tmp_path: Path
) -> None:
    provider = rig.provider()
    assert contents(await provider.save_left(NAME, tmp_path / "none")) == {}
    await left_alone(rig, provider, leaving(order_of))
    assert contents(await provider.save_left(NAME, tmp_path / "left")) == {}


async def test_stopped_before_its_agent_was_launched_then_another_start_makes_it_whole(
    rig: Rig, order: SandboxOrder, tmp_path: Path
) -> None:
    rig.do("faults/add", method="POST", path="/files/bulk-upload$", times=1, status=400, message="no")
    provider = rig.provider()
    with pytest.raises(OutsideError):
        await rig.made(provider, order)
    machine = await provider.client.find(NAME)
    assert machine is not None
    await provider.client.call(lambda _: machine.stop())
    assert contents(await provider.save_left(NAME, tmp_path / "left")) == {}
    assert (await rig.made(provider, order)).status is SandboxStatus.RUNNING
