"""The simulated Daytona, as its SDK and its specification see it."""

from __future__ import annotations

import asyncio
import importlib
import warnings
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from simulators.daytona.server import SNAPSHOT, running
from simulators.daytona.simulator import DaytonaSimulator
from tests.sandbox.daytona_rig import until

KEY = "key"
REQUIRED = {
    "Sandbox": "id organizationId name user env labels public networkBlockAll kvm target cpu gpu memory disk toolboxProxyUrl",
    "SandboxListItem": "id organizationId name user labels public networkBlockAll target cpu gpu memory disk toolboxProxyUrl",
    "SnapshotDto": "id general name state size entrypoint cpu gpu mem disk errorReason createdAt updatedAt lastUsedAt sourceSandboxId",
    "FileInfo": "name isDir size mode permissions modTime owner group",
}
"""Fields that the API's own description calls required."""

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    sdk: Any = importlib.import_module("daytona_sdk")


@pytest.fixture
def simulator(tmp_path: Path) -> Iterator[DaytonaSimulator]:
    with running(tmp_path, KEY) as made:
        made.world.delays.create_s = 0.02
        yield made


@pytest.fixture
async def client(simulator: DaytonaSimulator) -> AsyncIterator[Any]:
    config = sdk.DaytonaConfig(api_key=KEY, api_url=f"{simulator.world.base_url}/api", target="local")
    async with sdk.AsyncDaytona(config) as made:
        yield made


async def create(client: Any, **fields: Any) -> Any:
    return await client.create(sdk.CreateSandboxFromSnapshotParams(snapshot=SNAPSHOT, **fields), timeout=20)


def api(simulator: DaytonaSimulator, path: str, method: str = "GET", **more: Any) -> httpx.Response:
    return httpx.request(
        method, f"{simulator.world.base_url}/{path}", headers={"Authorization": f"Bearer {KEY}"},
        trust_env=False, **more,
    )  # fmt: skip


async def test_answers_have_every_required_field(simulator: DaytonaSimulator, client: Any) -> None:
    machine = await create(client, name="one")
    assert set(REQUIRED["Sandbox"].split()) <= api(simulator, "api/sandbox/one").json().keys()
    page = api(simulator, "api/sandbox").json()
    assert page.keys() == {"items", "nextCursor"}
    assert set(REQUIRED["SandboxListItem"].split()) <= page["items"][0].keys()
    assert "env" not in page["items"][0]
    assert set(REQUIRED["SnapshotDto"].split()) <= api(simulator, f"api/snapshots/{SNAPSHOT}").json().keys()
    home = await machine.get_work_dir()
    await machine.fs.upload_file(b"x", "a.txt")
    info = api(simulator, f"toolbox/{machine.id}/files/info", params={"path": f"{home}/a.txt"}).json()
    assert set(REQUIRED["FileInfo"].split()) <= info.keys()


async def test_files_go_in_and_come_out_unchanged(client: Any) -> None:
    machine = await create(client)
    data = bytes(range(256)) * 100
    await machine.fs.upload_files([sdk.FileUpload(source=data, destination="a/b c.bin")])
    assert await machine.fs.download_file("a/b c.bin") == data
    with pytest.raises(sdk.DaytonaError):
        await machine.fs.download_file("missing")


async def test_commands_run_for_real_and_are_cut_off_in_time(client: Any) -> None:
    machine = await create(client)
    answer = await machine.process.exec("echo out; echo err >&2; exit 3")
    assert (answer.exit_code, answer.result) == (3, "out\nerr\n")
    with pytest.raises(sdk.DaytonaTimeoutError):
        await machine.process.exec("sleep 30", timeout=1)


async def test_session_keeps_its_directory_and_its_end_leaves_no_exit_code(client: Any) -> None:
    machine = await create(client)
    process = machine.process
    await process.create_session("s")
    with pytest.raises(sdk.DaytonaConflictError):
        await process.create_session("s")
    await process.execute_session_command("s", sdk.SessionExecuteRequest(command="cd /usr; export A=7"))
    said = await process.execute_session_command("s", sdk.SessionExecuteRequest(command="pwd; echo $A"))
    assert said.stdout == "/usr\n7\n"
    ended = await process.execute_session_command(
        "s", sdk.SessionExecuteRequest(command="exit 4", run_async=True)
    )

    async def over() -> bool:
        try:
            await process.execute_session_command(
                "s", sdk.SessionExecuteRequest(command="true", run_async=True)
            )
        except sdk.DaytonaError:
            return True
        return False

    await until(over, "the end of the session's shell")
    assert (await process.get_session_command("s", ended.cmd_id)).exit_code is None


async def test_logs_are_streamed_from_the_first_byte_with_their_stream(client: Any) -> None:
    machine = await create(client)
    await machine.process.create_session("s")
    run = await machine.process.execute_session_command(
        "s",
        sdk.SessionExecuteRequest(command="echo one; echo two >&2; sleep 0.2; echo three", run_async=True),
    )
    out: list[str] = []
    err: list[str] = []
    async with asyncio.timeout(10):
        await machine.process.get_session_command_logs_async("s", run.cmd_id, out.append, err.append)
    assert ("".join(out), "".join(err)) == ("one\nthree\n", "two\n")


async def test_labels_select_and_pages_are_followed(client: Any) -> None:
    for number in range(3):
        await create(client, name=f"m{number}", labels={"app": "a" if number else "b", "n": str(number)})
    found = [one.name async for one in client.list(sdk.ListSandboxesQuery(labels={"app": "a"}, limit=1))]
    assert sorted(found) == ["m1", "m2"]


async def test_only_activity_resets_the_idle_timer(simulator: DaytonaSimulator, client: Any) -> None:
    machine = await create(client, name="idle", auto_stop_interval=10, auto_delete_interval=5)
    simulator.world.offset_s += 9 * 60
    await machine.refresh_activity()
    simulator.world.offset_s += 9 * 60
    await client.get("idle")
    assert simulator.world.machines[machine.id].state == "started"
    simulator.world.offset_s += 2 * 60
    await until(lambda: simulator.world.machines[machine.id].state == "stopped", "the stop")
    simulator.world.offset_s += 6 * 60
    await until(lambda: simulator.world.machines[machine.id].state == "destroyed", "the end")
    with pytest.raises(sdk.DaytonaNotFoundError):
        await client.get("idle")


async def test_stopped_machine_keeps_files_and_loses_sessions(client: Any) -> None:
    machine = await create(client)
    await machine.fs.upload_file(b"kept", "kept.txt")
    await machine.process.create_session("s")
    await machine.stop()
    with pytest.raises(sdk.DaytonaBadRequestError):
        await machine.process.exec("true")
    await machine.start()
    assert await machine.fs.download_file("kept.txt") == b"kept"
    assert await machine.process.list_sessions() == []


async def test_stopped_machine_holds_its_disk_only_and_needs_room_to_start(
    simulator: DaytonaSimulator, client: Any
) -> None:
    first = await create(client, name="first")
    await first.stop()
    simulator.world.limits.quota.update(cpu=first.cpu, disk=2 * first.disk)
    second = await create(client, name="second")
    with pytest.raises(sdk.DaytonaForbiddenError, match="Total cpu limit exceeded"):
        await first.start()
    with pytest.raises(sdk.DaytonaForbiddenError, match="Total"):
        await create(client, name="third")
    await second.stop()
    with pytest.raises(sdk.DaytonaForbiddenError, match="Total disk limit exceeded"):
        await create(client, name="third")
    await first.start()


async def test_wrong_key_and_throttlers_answer_as_the_sdk_expects(
    simulator: DaytonaSimulator, client: Any
) -> None:
    simulator.world.limits.rates = {"sandbox-create": 1}
    await create(client)
    with pytest.raises(sdk.DaytonaRateLimitError) as caught:
        await create(client)
    assert {name.lower() for name in caught.value.headers} >= {"retry-after-sandbox-create"}
    config = sdk.DaytonaConfig(api_key="no", api_url=f"{simulator.world.base_url}/api", target="local")
    async with sdk.AsyncDaytona(config) as stranger:
        with pytest.raises(sdk.DaytonaAuthenticationError):
            await stranger.get("any")


async def test_network_of_a_low_tier_is_fixed_and_does_not_reach_this_host(
    simulator: DaytonaSimulator, client: Any
) -> None:
    if simulator.world.isolation != "bubblewrap":
        pytest.skip("plain processes have this host's network")
    program = f"import urllib.request as u; u.urlopen('{simulator.world.base_url}/_sim/state')"
    assert (await (await create(client)).process.exec(f'python3 -c "{program}"')).exit_code == 0
    simulator.world.limits.tier = 1
    with pytest.raises(sdk.DaytonaBadRequestError, match="cannot be overridden"):
        await create(client, domain_allow_list="example.org")
    assert (await (await create(client)).process.exec(f'python3 -c "{program}"')).exit_code == 1


async def test_hosts_files_and_processes_are_not_seen(
    simulator: DaytonaSimulator, client: Any, tmp_path: Path
) -> None:
    if simulator.world.isolation != "bubblewrap":
        pytest.skip("plain processes see everything")
    (tmp_path / "secret").touch()
    machine = await create(client)
    seen = await machine.process.exec(f"ls {tmp_path} {Path(__file__).parent}; touch /usr/x")
    assert seen.result.count("No such file") == 2
    assert "Read-only file system" in seen.result
    shown = await machine.process.exec("ls /proc | grep -c '^[0-9]'")
    assert int(shown.result) < 10
    assert simulator.world.machines[machine.id].shown()["runnerId"] == "simulated-bubblewrap"
