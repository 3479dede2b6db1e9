"""What `doctor` and `sandboxes build-image` do at Daytona, on the simulated one."""

from __future__ import annotations

import asyncio
import re
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from app.cli.doctor.daytona import check_daytona, judge, judge_worker
from app.cli.doctor.verdict import State
from app.sandbox.app_reach import why_silent
from app.sandbox.daytona_account import Size
from app.sandbox.daytona_image import ensure_snapshot
from app.sandbox.daytona_probe import probe_machine
from app.sandbox.image import AGENT_SDK, IMAGE_VERSION, render_dockerfile
from simulators.daytona.server import running

from .daytona_rig import KEY, Rig, until

ROOT = Path(__file__).parents[2]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    with running(tmp_path / "daytona", KEY, IMAGE_VERSION) as simulator:
        made = Rig(simulator, tmp_path / "home", tmp_path)
        made.do("delays/set", create_s=0.02, destroy_s=0.02)
        yield made
        for provider in made.providers:
            await provider.aclose()


@asynccontextmanager
async def healthy_app() -> AsyncIterator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_probe_sandbox_finds_the_agent_and_the_app_and_leaves_nothing(rig: Rig) -> None:
    if rig.simulator.world.isolation != "bubblewrap":
        pytest.skip("a plain process has no image")
    async with healthy_app() as url:
        verdict = await check_daytona(rig.provider(app_url=url), ())
    assert verdict.state is State.OK, verdict
    assert AGENT_SDK in verdict.detail
    await until(lambda: not rig.machines(), "the end of the probe")


async def test_tier_that_reaches_only_a_fixed_list_is_told_with_what_to_do(rig: Rig) -> None:
    if rig.simulator.world.isolation != "bubblewrap":
        pytest.skip("a plain process has this host's network")
    rig.do("tier/set", tier=2)
    async with healthy_app() as url:
        verdict = await check_daytona(rig.provider(app_url=url), ())
    assert verdict.state is State.FAILED
    assert f"can't reach {url}" in verdict.detail
    assert "tier 3 or 4" in verdict.cure
    await until(lambda: not rig.machines(), "the end of the probe")


@pytest.mark.parametrize(
    ("link", "may_enter", "secret", "state", "words"),
    [
        ("auto", False, "", State.FAILED, "its agents have no model"),
        ("auto", False, "mine", State.FAILED, "the model is not reached either"),
        ("auto", True, "", State.FAILED, "the model is not reached either"),
        ("http", True, "", State.FAILED, "can't reach"),
    ],
)
async def test_closed_network_then_doctor_says_which_link_works_and_what_is_missing(
    rig: Rig, link: str, may_enter: bool, secret: str, state: State, words: str
) -> None:
    if rig.simulator.world.isolation != "bubblewrap":
        pytest.skip("a plain process has this host's network")
    rig.do("tier/set", tier=1)
    provider = rig.provider(app_url="http://127.0.0.1:9", link=link, model_secret=secret)
    verdict = await check_daytona(provider, (), model_url="http://127.0.0.1:9", key_may_enter=may_enter)
    assert verdict.state is state
    assert words in verdict.detail


async def test_relay_works_then_doctor_warns_of_the_key_in_the_sandbox(rig: Rig) -> None:
    if rig.simulator.world.isolation != "bubblewrap":
        pytest.skip("a plain process has this host's network")
    async with healthy_app() as url, healthy_app() as app_url:
        rig.do("tier/set", tier=1, open_ports=[int(url.rsplit(":", 1)[1])])
        provider = rig.provider(app_url=app_url, link="auto")
        verdict = await check_daytona(provider, (), model_url=url, key_may_enter=True)
        away = rig.provider(app_url="http://127.0.0.1:9", link="auto")
        nobody = await check_daytona(away, (), model_url=url, key_may_enter=True)
    assert verdict.state is State.WARNING, verdict
    assert "link relay, with the model's key in each sandbox" in verdict.detail
    assert "spending limit" in verdict.cure
    assert (nobody.state, "nothing is carried" in nobody.detail) == (State.FAILED, True)


async def test_web_process_on_this_host_is_reached_by_its_socket_which_serves_sandboxes_only(
    tmp_path: Path,
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    near = tmp_path / "gateway.sock"
    assert await why_silent(near, "http://127.0.0.1:9")
    async with await asyncio.start_unix_server(answer, near):
        assert await why_silent(near, "http://127.0.0.1:9") == ""


async def test_sandboxes_reach_the_app_and_this_machine_does_not_then_doctor_says_what_to_do(
    rig: Rig,
) -> None:
    if rig.simulator.world.isolation != "bubblewrap":
        pytest.skip("a plain process has no image")
    async with healthy_app() as url:
        provider = rig.provider(app_url=url)
        facts = await probe_machine(provider.client, ())
    # No network of a test lets a machine in where its host can't go: the app has gone since the machine looked.
    (found,) = judge_worker(await why_silent(None, url), facts, provider.account)
    assert found.state is State.WARNING
    assert "this machine does not" in found.detail
    assert "ISSUEWRIGHT_HOME" in found.cure


async def test_old_image_is_told_with_the_command_that_makes_a_new_one(rig: Rig) -> None:
    rig.simulator.world.image.joinpath("etc", "issuewright-image").write_text("0ld\n")
    async with healthy_app() as url:
        facts = await probe_machine(rig.provider(app_url=url).client, ())
    warnings = [one for one in judge(facts) if one.state is State.WARNING]
    assert ["build-image --replace" in one.cure for one in warnings] == [True]


async def test_wrong_key_fails_the_check_before_any_machine(rig: Rig) -> None:
    verdict = await check_daytona(rig.provider(api_key="wrong"), ())
    assert (verdict.state, "DAYTONA_API_KEY" in verdict.detail) == (State.FAILED, True)
    assert rig.asked("POST", "/api/sandbox") == []


async def test_snapshot_is_built_once_and_anew_only_when_asked(rig: Rig) -> None:
    client = rig.provider().client
    said: list[str] = []

    async def build(*, replace: bool) -> str:
        return await ensure_snapshot(client, "mine", Size(8, 4, 10), said.append, replace=replace)

    for replace, builds in ((False, 1), (False, 1), (True, 2)):
        assert await build(replace=replace) == "active"
        assert len(rig.asked("POST", "/api/snapshots")) == builds
    snapshot = rig.simulator.world.snapshots["mine"]
    assert snapshot.size == {"cpu": 4, "memory": 8, "disk": 10}
    assert snapshot.build_info is not None
    assert f"claude-agent-sdk=={AGENT_SDK}" in snapshot.build_info["dockerfileContent"]


def test_image_has_the_agent_that_the_project_names() -> None:
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["local"]
    assert f"claude-agent-sdk=={AGENT_SDK}" in extra
    assert IMAGE_VERSION in render_dockerfile()
    assert re.fullmatch(r"[0-9a-f]{12}", IMAGE_VERSION)
