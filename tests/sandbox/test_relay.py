"""Sandboxes on Daytona that can't reach the app: what they are given, who asks whom, and files through the toolbox."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from app.domain.errors import Denied, OutsideError, TooMuch
from app.domain.ports import SandboxOrder, SandboxStatus
from app.domain.remote import AppSilent, DirectModel
from app.sandbox.daytona import DaytonaSandboxes
from simulators.daytona.box import isolation

from .daytona_rig import INSTANCE, Rig, until
from .support import OrderOf

NAME = "iw-inst1-sbx_1"
MODEL_KEY = "sk-ant-canary-relayed"
MODEL_URL = "https://models.example.org"
OFFERED = DirectModel("operator", MODEL_URL, MODEL_KEY)
NOT_LET_IN = DirectModel("operator", MODEL_URL)
closed_network = pytest.mark.skipif(isolation() != "bubblewrap", reason="bubblewrap closes a network")


@pytest.fixture
def order(order_of: OrderOf) -> SandboxOrder:
    labels = {"issuewright": INSTANCE, "spec": "spec_1", "sandbox": "sbx_1"}
    sized = {"memory_gb": 4, "cpu": 2, "disk_gb": 8}
    return replace(order_of("report"), name=NAME, labels=labels, direct_model=OFFERED, **sized)


async def reported(provider: DaytonaSandboxes) -> dict[str, Any]:
    async def look() -> bytes:
        return await provider.fetch_log(NAME)

    log = await until(look, "the stand-in's report")
    found: dict[str, Any] = json.loads(log.decode().splitlines()[-1])
    return found


def shown(rig: Rig) -> str:
    """All that Daytona shows and was told by name, command or environment; not the files that were uploaded."""
    return json.dumps([rig.machines(), [one["path"] for one in rig.simulator.requests]])


# ------------------------------------------------------------ what a sandbox is given


async def test_relay_named_then_the_agent_gets_the_models_address_and_key_and_nobody_else_sees_it(
    rig: Rig, order: SandboxOrder
) -> None:
    provider = rig.provider(link="relay")
    seen = await rig.made(provider, order)
    assert (seen.status, seen.relayed) == (SandboxStatus.RUNNING, True)
    assert (await provider.fetch_sight(NAME)).relayed, "by any later worker too"
    found = await reported(provider)
    assert found["relay"]
    assert found["environment"]["ANTHROPIC_BASE_URL"] == MODEL_URL
    assert found["environment"]["MODEL_KEY_FILE"].endswith("/issuewright/model_key")
    assert MODEL_KEY not in json.dumps(found["environment"])
    assert rig.machines()[0]["domainAllowList"] == "models.example.org"
    assert MODEL_KEY not in shown(rig)
    await provider.ensure_deleted(NAME)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (None, "MODEL_KEY_IN_SANDBOX=true"),
        (NOT_LET_IN, "DAYTONA_MODEL_SECRET"),
        (DirectModel("installation", MODEL_URL), "model key of the installation"),
    ],
)
async def test_no_way_to_the_model_then_refused_before_anything_is_made(
    rig: Rig, order: SandboxOrder, model: DirectModel | None, words: str
) -> None:
    provider = rig.provider(link="relay")
    with pytest.raises(Denied, match=words) as denied:
        await rig.made(provider, replace(order, direct_model=model))
    assert denied.value.reason == "sandbox"
    assert rig.asked("POST", "/api/sandbox") == []


async def test_secret_at_daytona_then_its_name_goes_in_and_no_key(rig: Rig, order: SandboxOrder) -> None:
    provider = rig.provider(link="relay", model_secret="issuewright-model")
    assert (await rig.made(provider, replace(order, direct_model=NOT_LET_IN))).relayed
    (machine,) = rig.simulator.world.machines.values()
    assert machine.asked["secrets"] == [{"ANTHROPIC_API_KEY": "issuewright-model"}]
    found = await reported(provider)
    assert "MODEL_KEY_FILE" not in found["environment"]
    await provider.ensure_deleted(NAME)


async def test_persons_key_that_may_not_enter_is_not_replaced_by_the_operators_secret(
    rig: Rig, order: SandboxOrder
) -> None:
    provider = rig.provider(link="relay", model_secret="issuewright-model")
    with pytest.raises(Denied, match="model key of the user"):
        await rig.made(provider, replace(order, direct_model=DirectModel("user", MODEL_URL)))


# ------------------------------------------------------------ which link


@closed_network
async def test_machine_does_not_reach_the_app_then_it_is_made_anew_for_the_relay_and_the_next_one_at_once(
    rig: Rig, order: SandboxOrder, app: str
) -> None:
    rig.do("tier/set", tier=1)
    provider = rig.provider(link="auto", app_url=app)
    seen = await rig.made(provider, order)
    assert (seen.status, seen.relayed) == (SandboxStatus.RUNNING, True)
    assert [one["labels"]["link"] for one in rig.machines()] == ["relay"]
    made = len(rig.simulator.world.machines)
    with pytest.raises(Denied):
        await rig.made(provider, replace(order, name="iw-inst1-sbx_2", direct_model=NOT_LET_IN))
    assert len(rig.simulator.world.machines) == made
    await provider.ensure_deleted(NAME)


@closed_network
async def test_machine_does_not_reach_the_app_and_no_key_may_enter_then_it_is_deleted_and_said(
    rig: Rig, order: SandboxOrder, app: str
) -> None:
    rig.do("tier/set", tier=1)
    provider = rig.provider(link="auto", app_url=app)
    with pytest.raises(Denied, match="MODEL_KEY_IN_SANDBOX"):
        await rig.made(provider, replace(order, direct_model=NOT_LET_IN))
    assert rig.machines() == []


async def test_app_answers_nobody_then_that_is_waited_for_without_a_machine_and_no_relay_is_believed(
    rig: Rig, order: SandboxOrder
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    provider = rig.provider(link="auto", app_url=f"http://127.0.0.1:{port}")
    with pytest.raises(AppSilent):
        await rig.made(provider, replace(order, direct_model=NOT_LET_IN))
    await until(lambda: not rig.machines(), "the machine gone")
    made = len(rig.simulator.world.machines)
    for _ in range(3):
        with pytest.raises(AppSilent):
            await rig.made(provider, order)
    assert len(rig.simulator.world.machines) == made
    with healthy(port):
        assert not (await rig.made(provider, order)).relayed
    await provider.ensure_deleted(NAME)


async def test_app_was_reached_and_the_next_machine_does_not_reach_it_then_that_one_has_the_relay(
    rig: Rig, order: SandboxOrder, app: str
) -> None:
    provider = rig.provider(link="auto", app_url=app)
    assert not (await rig.made(provider, order)).relayed
    if isolation() == "bubblewrap":
        rig.do("tier/set", tier=1)
        assert (await rig.made(provider, replace(order, name="iw-inst1-sbx_2"))).relayed
    await provider.ensure_deleted(NAME)


class Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None: ...  # noqa: A002


@contextmanager
def healthy(port: int = 0) -> Iterator[str]:
    """An app that answers; its address."""
    server = ThreadingHTTPServer(("127.0.0.1", port), Healthy)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def app() -> Iterator[str]:
    with healthy() as url:
        yield url


async def test_machine_reaches_the_app_then_no_key_goes_in_even_where_it_may(
    rig: Rig, order: SandboxOrder, app: str
) -> None:
    provider = rig.provider(link="auto", app_url=app)
    seen = await rig.made(provider, order)
    assert not seen.relayed
    found = await reported(provider)
    assert not found["relay"]
    assert "/model" in found["environment"]["ANTHROPIC_BASE_URL"]
    assert "MODEL_KEY_FILE" not in found["environment"]
    assert await provider.fetch_file(NAME, "../model_key", 1_000) is None
    await provider.ensure_deleted(NAME)


# ------------------------------------------------------------ files


@pytest.fixture
async def relayed(rig: Rig, order: SandboxOrder) -> DaytonaSandboxes:
    provider = rig.provider(link="relay")
    await rig.made(provider, order)
    return provider


async def test_files_come_and_go_with_every_byte_and_none_is_none(
    relayed: DaytonaSandboxes, tmp_path: Path
) -> None:
    data = bytes(range(256)) * 2_000 + b"\r\n--boundary"
    await relayed.put_file(NAME, "relay/in/events.json", data)
    assert await relayed.fetch_file(NAME, "relay/in/events.json", len(data)) == data
    assert await relayed.save_file(NAME, "relay/in/events.json", tmp_path / "saved", len(data))
    assert (tmp_path / "saved").read_bytes() == data
    assert await relayed.fetch_file(NAME, "relay/out/none", 10) is None
    assert not await relayed.save_file(NAME, "relay/out/none", tmp_path / "none", 10)


async def test_file_larger_than_allowed_is_too_much(relayed: DaytonaSandboxes, tmp_path: Path) -> None:
    await relayed.put_file(NAME, "big", b"x" * 3_000_000)
    with pytest.raises(TooMuch):
        await relayed.fetch_file(NAME, "big", 1_000)
    with pytest.raises(TooMuch):
        await relayed.save_file(NAME, "big", tmp_path / "big", 1_000)
    assert (tmp_path / "big").stat().st_size <= 1_000
    assert await relayed.fetch_file(NAME, "big", 3_000_000) == b"x" * 3_000_000, "and the next read is whole"


async def test_stream_dropped_then_an_error_and_the_next_read_works(
    relayed: DaytonaSandboxes, rig: Rig
) -> None:
    await relayed.put_file(NAME, "relay/in/x", b"x")
    rig.do("faults/add", method="POST", path="/files/bulk-download$", times=1, drop=True)
    with pytest.raises(OutsideError):
        await relayed.fetch_file(NAME, "relay/in/x", 10)
    assert await relayed.fetch_file(NAME, "relay/in/x", 10) == b"x"


async def test_machine_stopped_or_gone_meanwhile_is_an_error_or_nothing(
    relayed: DaytonaSandboxes, rig: Rig
) -> None:
    machine = await relayed.client.find(NAME)
    assert machine is not None
    await relayed.client.call(lambda _: machine.stop())
    with pytest.raises(OutsideError):
        await relayed.fetch_file(NAME, "relay/in/x", 10)
    await relayed.ensure_deleted(NAME)
    await until(lambda: not rig.machines(), "the machine gone")
    assert await relayed.fetch_file(NAME, "relay/in/x", 10) is None
    await relayed.put_file(NAME, "relay/in/x", b"x")
