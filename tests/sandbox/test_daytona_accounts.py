"""Sandboxes in the Daytona accounts of people and installations, each account a simulated Daytona of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from app.db.accounts import StoredAccounts, find_account_name
from app.db.cipher import Cipher
from app.db.credentials import SealedSecret, record_credential, remove_credential
from app.db.engine import Database
from app.db.models import Sandbox, Spec
from app.domain.credentials import CredentialKind, CredentialPlace, CredentialScope
from app.domain.errors import Denied
from app.domain.ports import SandboxOrder, SandboxStatus
from app.sandbox.daytona import DaytonaSandboxes
from app.sandbox.daytona_account import DaytonaAccount
from app.sandbox.daytona_accounts import DaytonaAccounts
from simulators.daytona.server import running
from simulators.daytona.simulator import DaytonaSimulator
from tests.db.rows import T0, add_sandbox, add_spec

from .daytona_rig import INSTANCE, KEY, PACE, until
from .support import OrderOf

CIPHER = Cipher(["k" * 40])
ALICES_KEY = "dtn-of-alice-0123456789"
ALICE = CredentialPlace(CredentialScope.USER, 11, CredentialKind.DAYTONA)


@pytest.fixture
def organizations(tmp_path: Path) -> Iterator[tuple[DaytonaSimulator, DaytonaSimulator]]:
    with running(tmp_path / "ours", KEY) as ours, running(tmp_path / "alices", ALICES_KEY) as alices:
        yield ours, alices


@dataclass
class Rig:
    db: Database
    ours: DaytonaSimulator
    alices: DaytonaSimulator
    provider: DaytonaAccounts

    async def store(self, secret: str = ALICES_KEY) -> None:
        url = f"{self.alices.world.base_url}/api"
        async with self.db.write() as session:
            await record_credential(session, ALICE, SealedSecret.of(CIPHER, ALICE, secret, url), T0)

    async def remove(self) -> None:
        async with self.db.write() as session:
            assert await remove_credential(session, ALICE)

    async def order(self, template: SandboxOrder, number: int, labeler_id: int) -> SandboxOrder:
        """For a new sandbox of a spec that this person labeled, its row included."""
        spec_id = await add_spec(
            self.db, issue_number=number, labeler_id=labeler_id, trigger_key=f"label@{number}"
        )
        async with self.db.write() as session:
            spec = await session.get(Spec, spec_id)
            assert spec is not None
            account = await find_account_name(session, spec)
        name = f"iw-{INSTANCE}-sbx_{number}"
        box = await add_sandbox(self.db, spec_id, account_of=account, provider="daytona")
        async with self.db.write() as session:
            row = await session.get(Sandbox, box)
            assert row is not None
            row.provider_name = name
        labels = {"issuewright": INSTANCE, "spec": spec_id, "sandbox": box}
        return replace(template, name=name, labels=labels, memory_gb=4, cpu=2, disk_gb=8)

    async def made(self, order: SandboxOrder) -> None:
        async def is_running() -> bool:
            return (await self.provider.ensure_created(order)).status is SandboxStatus.RUNNING

        await until(is_running, "a running sandbox")


def names(simulator: DaytonaSimulator) -> list[str]:
    return [one.name for one in simulator.world.machines.values() if one.state != "destroyed"]


@pytest.fixture
async def rig(
    organizations: tuple[DaytonaSimulator, DaytonaSimulator],
    tmp_path: Path,
    payload_package: Path,
    database_url: str,
) -> AsyncIterator[Rig]:
    ours, alices = organizations
    db = Database(database_url)
    own = DaytonaAccount(
        api_key=KEY, api_url=f"{ours.world.base_url}/api", target="local", app_url="https://app.example.org",
        snapshot="ai-agent-dev-light", image="", instance=INSTANCE, model_secret="of-ours",
    )  # fmt: skip

    def make(account: DaytonaAccount) -> DaytonaSandboxes:
        return DaytonaSandboxes(account, tmp_path / "home", pace=PACE, payload=payload_package)

    provider = DaytonaAccounts(own, StoredAccounts(db, CIPHER, lambda _: None), make)
    yield Rig(db, ours, alices, provider)
    await provider.aclose()
    await db.aclose()


async def test_each_sandbox_is_in_the_account_of_whoever_labeled_and_is_found_and_deleted_there(
    rig: Rig, order_of: OrderOf
) -> None:
    await rig.store()
    alices = await rig.order(order_of("report"), 1, labeler_id=11)
    bobs = await rig.order(order_of("report"), 2, labeler_id=12)
    await rig.made(alices)
    await rig.made(bobs)
    assert (names(rig.alices), names(rig.ours)) == ([alices.name], [bobs.name])
    assert {one.name for one in await rig.provider.list_owned()} == {alices.name, bobs.name}
    await rig.provider.ensure_stopped(alices.name, 0.1)
    await rig.provider.ensure_deleted(alices.name)
    await until(lambda: names(rig.alices) == [], "its end")
    assert names(rig.ours) == [bobs.name]


async def test_key_removed_meanwhile_then_it_is_said_and_the_sandbox_counts_as_there(
    rig: Rig, order_of: OrderOf
) -> None:
    await rig.store()
    order = await rig.order(order_of("report"), 1, labeler_id=11)
    await rig.made(order)
    await rig.remove()
    with pytest.raises(Denied, match=r"user 11 can't be used \(it was removed\).*--user 11") as denied:
        await rig.provider.ensure_deleted(order.name)
    assert denied.value.reason == "account"
    seen = {one.name: one for one in await rig.provider.list_owned()}
    assert seen[order.name].status is SandboxStatus.RUNNING
    assert "can't be listed" in seen[order.name].detail
    await rig.store()
    await rig.provider.ensure_deleted(order.name)
    await until(lambda: names(rig.alices) == [], "its end, once the key is back")


async def test_key_that_daytona_refuses_is_its_owners_to_mend_and_harms_nobody_else(
    rig: Rig, order_of: OrderOf
) -> None:
    await rig.store("dtn-expired-0123456789")
    bobs = await rig.order(order_of("report"), 2, labeler_id=12)
    await rig.made(bobs)
    alices = await rig.order(order_of("report"), 1, labeler_id=11)
    with pytest.raises(Denied, match="credentials set daytona --user 11") as denied:
        await rig.made(alices)
    assert denied.value.reason == "account"
    assert "dtn-expired" not in str(denied.value)
    seen = {one.name: one.detail for one in await rig.provider.list_owned()}
    assert seen[bobs.name] == ""
    await rig.store()
    await rig.made(alices)
    assert names(rig.alices) == [alices.name], "with the new key, at once"
