from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.domain.ports import Sandboxes, SandboxStatus
from app.sandbox.local import LocalHost
from app.sandbox.process import ProcessSandboxes
from app.sandbox.process_table import list_descendants, read_table

from .support import App, Look, OrderOf, delete_all, kill

NAME = "iw-sbx-1"


@pytest.fixture
async def sandboxes(host: LocalHost) -> AsyncIterator[Sandboxes]:
    provider = ProcessSandboxes(host)
    yield provider
    await delete_all(provider)


def test_construction_warns(host: LocalHost, caplog: pytest.LogCaptureFixture) -> None:
    ProcessSandboxes(host)

    assert "isolates nothing" in caplog.text


async def test_payload_runs_with_an_environment_and_home_of_its_own(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "planted")
    order = order_of("look")
    await sandboxes.ensure_created(order)

    seen = await look.report()

    assert "planted" not in seen["environment"].values()
    assert Path(seen["environment"]["HOME"]) == look.directory.home
    assert seen["token"] == order.token
    assert seen["head"].startswith(order.start_sha)
    assert (await look.ended()).exit_code == 0
    assert await sandboxes.fetch_log(NAME) == b"looked\n"


async def test_stop_ends_the_payload_and_what_left_its_session(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("wait"))
    grandchild = (await look.report())["grandchild"]

    await sandboxes.ensure_stopped(NAME, 10)

    ended = await look.ended()
    assert (ended.exit_code, ended.detail) == (143, "stopped")
    assert grandchild not in read_table()


async def test_keeper_killed_ends_the_payload_and_delete_takes_the_rest(
    sandboxes: Sandboxes, order_of: OrderOf, look: Look, app: App
) -> None:
    await sandboxes.ensure_created(order_of("wait"))
    await look.report()
    keeper = look.directory.read_keeper_pid()
    assert keeper is not None
    inside = [entry.pid for entry in list_descendants(read_table(), keeper)]

    kill(keeper)

    await look.until((look.directory.state / "wrapped-up").exists, "wrapping up")
    await look.until(lambda: not look.directory.keeper_lives(), "end of the keeper")
    assert (await sandboxes.fetch_sight(NAME)).status is SandboxStatus.ERROR
    await sandboxes.ensure_deleted(NAME)
    await look.until(lambda: not set(inside) & set(read_table()), "end of all processes")
