from __future__ import annotations

import asyncio
import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.domain.errors import Denied, Refused
from app.domain.ports import Sandboxes, SandboxStatus
from app.sandbox.bubblewrap import BubblewrapSandboxes, find_binaries
from app.sandbox.local import LocalHost
from app.sandbox.process_table import list_descendants, read_table

from .support import App, Look, OrderOf, kill

pytestmark = pytest.mark.needs_bubblewrap

NAME = "iw-sbx-1"


def _names(host: LocalHost) -> list[str]:
    return [path.name for path in (host.home / "sandboxes").iterdir()]


async def test_order_is_carried_out_and_ends_with_the_payloads_exit_code(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    sight = await sandboxes.ensure_created(order_of("look"))

    assert sight.status in {SandboxStatus.CREATING, SandboxStatus.RUNNING}
    ended = await look.ended()
    assert (ended.status, ended.exit_code, ended.detail) == (SandboxStatus.EXITED, 0, "")
    assert ended.labels == {"spec": "spec_1"}
    assert ended.started_at is not None
    assert await sandboxes.fetch_log(NAME) == b"looked\n"
    assert await sandboxes.fetch_log(NAME, offset=4, limit=2) == b"ed"


async def test_failing_payload_shows_its_exit_code_and_words(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("fail"))

    ended = await look.ended()
    assert (ended.status, ended.exit_code) == (SandboxStatus.EXITED, 10)
    assert await sandboxes.fetch_log(NAME) == b"no such luck\n"


async def test_created_twice_at_once_is_made_once(
    host: LocalHost, sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    others = [BubblewrapSandboxes(host) for _ in range(3)]

    await asyncio.gather(*(provider.ensure_created(order_of("wait")) for provider in (sandboxes, *others)))
    await look.report()
    keeper = look.directory.read_keeper_pid()
    again = await others[0].ensure_created(order_of("fail"))

    assert again.status is SandboxStatus.RUNNING
    assert look.directory.read_keeper_pid() == keeper
    assert [sight.name for sight in await others[1].list_owned()] == [NAME]
    assert _names(host) == [NAME]


async def test_worker_killed_leaves_the_sandbox_to_the_next_worker(
    host: LocalHost, sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    root = Path(__file__).resolve().parents[2]
    worker = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("worker_like.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(root), *sys.path))},
    )
    with worker:
        assert worker.stdin
        assert worker.stdout
        worker.stdin.write(pickle.dumps((host, order_of("wait"))))
        worker.stdin.close()
        await asyncio.to_thread(worker.stdout.readline)
        worker.kill()
    await look.report()

    found = await sandboxes.fetch_sight(NAME)
    assert found.status is SandboxStatus.RUNNING
    await sandboxes.ensure_stopped(NAME, 10)
    assert (await look.ended()).exit_code == 143


async def test_keeper_killed_ends_everything_inside_and_is_seen_as_an_error(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("wait"))
    await look.report()
    keeper = look.directory.read_keeper_pid()
    assert keeper is not None
    inside = [entry.pid for entry in list_descendants(read_table(), keeper)]
    assert (
        len(inside) >= 5
    )  # bwrap, the namespace's init, forwarder, payload, a grandchild in its own session

    kill(keeper)

    await look.until(lambda: not set(inside) & set(read_table()), "end of all processes", 5)
    sight = await sandboxes.fetch_sight(NAME)
    assert sight.status is SandboxStatus.ERROR
    assert "keeper died" in sight.detail
    again = await sandboxes.ensure_created(order_of("wait"))
    assert again.status is SandboxStatus.ERROR


async def test_stop_lets_the_payload_wrap_up(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("wait"))
    await look.report()

    await sandboxes.ensure_stopped(NAME, 10)
    await sandboxes.ensure_stopped(NAME, 20)

    ended = await look.ended()
    assert (ended.status, ended.exit_code, ended.detail) == (SandboxStatus.EXITED, 143, "stopped")
    assert (look.directory.state / "wrapped-up").exists()
    await sandboxes.ensure_stopped(NAME, 0)


async def test_stop_kills_a_payload_that_does_not_listen_when_the_grace_is_over(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("ignore"))
    await look.report()

    await sandboxes.ensure_stopped(NAME, 0.3)

    ended = await look.ended()
    assert (ended.exit_code, ended.detail) == (137, "killed")


async def test_second_stop_with_a_shorter_grace_counts(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("ignore"))
    await look.report()

    await sandboxes.ensure_stopped(NAME, 200)
    await sandboxes.ensure_stopped(NAME, 0)

    assert (await look.ended()).detail == "killed"


async def test_keeper_asked_to_end_stops_its_sandbox_with_grace(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("wait"))
    await look.report()
    keeper = look.directory.read_keeper_pid()
    assert keeper is not None

    os.kill(keeper, 15)

    assert (await look.ended()).exit_code == 143


async def test_deleted_while_running_is_gone_with_all_processes(
    host: LocalHost, sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("ignore"))
    await look.report()
    keeper = look.directory.read_keeper_pid()
    assert keeper is not None
    inside = [entry.pid for entry in list_descendants(read_table(), keeper)]

    await sandboxes.ensure_deleted(NAME)
    await sandboxes.ensure_deleted(NAME)

    assert not set(inside) & set(read_table())
    assert _names(host) == []
    assert (await sandboxes.fetch_sight(NAME)).status is SandboxStatus.ABSENT
    assert await sandboxes.fetch_log(NAME) == b""
    await sandboxes.ensure_stopped(NAME, 1)


async def test_delete_takes_what_an_earlier_delete_left_and_trees_without_end(
    host: LocalHost, sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("dig"))
    await look.ended()
    left = host.home / "sandboxes" / ".trash-old-1"
    left.mkdir()

    await sandboxes.ensure_deleted(NAME)

    assert _names(host) == []


async def test_probe_at_start_takes_what_killed_workers_left(host: LocalHost, sandboxes: Sandboxes) -> None:
    root = host.home / "sandboxes"
    for name in (".trash-x-1", ".new-x-1", ".probe-1", ".new-young-2"):
        (root / name / "work").mkdir(parents=True)
        if "young" not in name:
            os.utime(root / name, (0, 0))

    await sandboxes.probe()

    assert _names(host) == [".new-young-2"]


async def test_order_of_another_version_is_read_as_far_as_it_goes(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("look"))
    await look.ended()
    file = look.directory.path / "order.json"
    facts = json.loads(file.read_text())
    del facts["pace"]["grace_s"]
    file.write_text(json.dumps({**facts, "added": 1}))
    assert (await sandboxes.fetch_sight(NAME)).exit_code == 0

    file.write_text("{")

    (sight,) = await sandboxes.list_owned()
    assert sight.status is SandboxStatus.ERROR
    await sandboxes.ensure_stopped(NAME, 0)
    await sandboxes.ensure_deleted(NAME)
    assert await sandboxes.list_owned() == []


@pytest.mark.parametrize("binary", find_binaries(), ids=str)
async def test_every_binary_that_is_found_works(
    host: LocalHost, sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App, binary: Path
) -> None:
    provider = BubblewrapSandboxes(host, (binary,))

    await provider.ensure_created(order_of("look"))

    assert (await look.ended()).exit_code == 0


async def test_mirror_without_the_commit_is_told_as_a_failed_set_up(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("look", start_sha="1" * 40))

    ended = await look.ended()
    assert ended.status is SandboxStatus.ERROR
    assert ended.detail.startswith("setup_failed: git ended with")


@pytest.mark.parametrize("name", ["", "../x", ".hidden", "a/b", "x" * 200])
async def test_names_that_are_no_names_are_refused(
    sandboxes: Sandboxes, order_of: OrderOf, name: str
) -> None:
    with pytest.raises(Refused):
        await sandboxes.ensure_created(order_of("look", name=name))
    with pytest.raises(Refused):
        await sandboxes.ensure_deleted(name)


@pytest.mark.parametrize("variable", ["LD_PRELOAD", "PATH", "CALLBACK_URL", "GITHUB_TOKEN"])
async def test_variables_outside_the_contract_are_refused(
    sandboxes: Sandboxes, order_of: OrderOf, variable: str
) -> None:
    with pytest.raises(Refused, match=variable):
        await sandboxes.ensure_created(order_of("look", environment={variable: "x"}))


async def test_probe_says_ok_where_it_works(sandboxes: Sandboxes) -> None:
    probe = await sandboxes.probe()

    assert "bwrap" in probe.detail
    assert probe.ok or "claude-agent-sdk is not installed" in probe.detail


async def test_probe_falls_back_to_the_next_binary(host: LocalHost, tmp_path: Path) -> None:
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o700)
    working = BubblewrapSandboxes(host)._binaries

    probe = await BubblewrapSandboxes(host, (broken, *working)).probe()

    assert str(working[0]) in probe.detail


REFUSALS = {
    "bwrap: setting up uid map: Permission denied": "seccomp=unconfined",
    "bwrap: No permissions to create new namespace, likely because": "seccomp=unconfined",
    "bwrap: Can't mount proc on /newroot/proc: Operation not permitted": "systempaths=unconfined",
}


@pytest.mark.parametrize(("said", "cure"), REFUSALS.items())
async def test_refusal_of_the_kernel_is_told_with_a_cure_and_stops_creation(
    host: LocalHost, order_of: OrderOf, tmp_path: Path, said: str, cure: str
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "bubblewrap 0.9.0" && exit 0\necho "{said}" >&2\nexit 1\n'
    )
    fake.chmod(0o700)
    provider = BubblewrapSandboxes(host, (fake,))

    probe = await provider.probe()

    assert not probe.ok
    assert cure in probe.detail
    assert "DAYTONA_API_KEY" in probe.detail
    with pytest.raises(Denied):
        await provider.ensure_created(order_of("look"))
    assert await provider.list_owned() == []


async def test_no_bubblewrap_at_all_is_told(host: LocalHost) -> None:
    probe = await BubblewrapSandboxes(host, ()).probe()

    assert not probe.ok
    assert "not installed" in probe.detail


def test_socket_directory_that_is_too_long_is_refused(host: LocalHost) -> None:
    with pytest.raises(ValueError, match="too long"):
        BubblewrapSandboxes(replace(host, socket_dir=Path("/" + "x" * 120)))
