"""A host for sandboxes under test: a home, a mirror, a stub of the app on its socket, and providers on top."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.domain.ids import SandboxId
from app.domain.ports import Sandboxes, SandboxOrder
from app.sandbox.bubblewrap import BubblewrapSandboxes
from app.sandbox.bundle import installed_payload
from app.sandbox.local import LocalHost
from app.sandbox.state_dir import StateDir
from simulators.daytona.server import running

from .daytona_rig import KEY, Rig, make_payload
from .support import PACE, App, Look, OrderOf, Source, bwrap_works, delete_all, git


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("needs_bubblewrap")]
    if marked and not bwrap_works():
        for item in marked:
            item.add_marker(pytest.mark.skip(reason="bubblewrap does not work here"))


@pytest.fixture
def source(tmp_path: Path) -> Source:
    tree, mirror = tmp_path / "source", tmp_path / "mirror.git"
    tree.mkdir()
    git("init", "-q", "-b", "main", cwd=tree)
    git("init", "-q", "--bare", "-b", "main", str(mirror), cwd=tmp_path)
    made = Source(tree, mirror)
    made.commit({"README.md": b"hello\n", "src/main.py": b"print(1)\n"})
    return made


@pytest.fixture
def payload(tmp_path: Path) -> Path:
    package = tmp_path / "stand_in" / "sandbox_payload"
    shutil.copytree(
        Path(__file__).with_name("stand_in"), package, ignore=shutil.ignore_patterns("__pycache__")
    )
    for shared in ("forwarder.py", "held.py"):
        shutil.copy(installed_payload() / shared, package)
    return package


@pytest.fixture(scope="module")
def payload_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_payload(tmp_path_factory.mktemp("stand_in"))


@pytest.fixture
async def rig(tmp_path: Path, payload_package: Path) -> AsyncIterator[Rig]:
    """A simulated Daytona with one account."""
    with running(tmp_path / "daytona", KEY) as simulator:
        made = Rig(simulator, tmp_path / "home", payload_package)
        made.do("delays/set", create_s=0.02, build_s=0.05, stop_s=0.02, destroy_s=0.02)
        yield made
        for provider in made.providers:
            await provider.aclose()


@pytest.fixture
def socket_dir() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="iw-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture
async def app(socket_dir: Path) -> AsyncIterator[App]:
    stub = App(socket_dir)
    await stub.start()
    yield stub
    await stub.stop()


@pytest.fixture
def host(tmp_path: Path, socket_dir: Path, payload: Path) -> LocalHost:
    return LocalHost(tmp_path / "home", socket_dir, payload, PACE)


@pytest.fixture
async def sandboxes(host: LocalHost) -> AsyncIterator[Sandboxes]:
    """The provider under test is bubblewrap where a test does not say otherwise."""
    provider: Sandboxes = BubblewrapSandboxes(host)
    yield provider
    await delete_all(provider)


@pytest.fixture
def order_of(source: Source) -> OrderOf:
    def make(act: str, **changes: Any) -> SandboxOrder:
        head = git("rev-parse", "refs/heads/main", cwd=source.mirror)
        inputs = {"prompt.md": act.encode(), "system.md": changes.pop("system", b"")}
        order = SandboxOrder(
            sandbox_id=SandboxId("sbx_1"),
            name="iw-sbx-1",
            labels={"spec": "spec_1"},
            environment={"SANDBOX_ID": "sbx_1", "SPEC_ID": "spec_1"},
            inputs=inputs,
            token="sandbox-token-1",
            mirror=source.mirror,
            branch="feature/7-thing",
            start_sha=head,
            agent_config_sha=head,
            memory_gb=1,
            cpu=1,
            disk_gb=1,
            time_limit_s=120,
        )
        return replace(order, **changes)

    return make


@pytest.fixture
def look(host: LocalHost, sandboxes: Sandboxes) -> Look:
    return Look(sandboxes, StateDir(host.home / "sandboxes" / "iw-sbx-1"))
