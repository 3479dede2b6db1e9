"""Access is taken away and given back: in whatever order that is heard of, what holds now decides."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from app.db.installations import find_repository
from app.domain.states import SpecState
from tests.worker.bench import Bench
from tests.worker.lifecycle import Case, make, row_of
from tests.worker.test_comments import replies, say
from tests.worker.test_life import start
from tests.worker.test_lifecycle_table import know_repository, listen_to_everything

ABOUT_ACCESS = ("installation", "installation_repositories")


def told_of_access(bench: Bench) -> list[dict[str, Any]]:
    """What GitHub told of the installation since the last call, oldest first."""
    found = [one for event in ABOUT_ACCESS for one in bench.github.deliveries(event) if is_new(bench, one)]
    bench.seen |= {one["guid"] for one in found}
    return sorted(found, key=lambda one: one["id"])


def is_new(bench: Bench, delivery: dict[str, Any]) -> bool:
    mine = delivery["payload"]["installation"]["id"] == bench.installation_id
    return mine and delivery["guid"] not in bench.seen


async def working(bench: Bench) -> Case:
    listen_to_everything(bench)
    await know_repository(bench)
    case = await make(bench, SpecState.IMPLEMENTING, pull=True)
    await bench.rest(listen=False)
    told_of_access(bench)
    return case


def suspend_and_back(bench: Bench) -> None:
    bench.github.suspend(bench.installation_id, "alice")
    bench.github.unsuspend(bench.installation_id, "alice")


def take_out_and_put_back(bench: Bench) -> None:
    bench.github.remove_from_installation(bench.installation_id, "alice", [bench.name])
    bench.github.add_to_installation(bench.installation_id, "alice", [bench.name])


@pytest.mark.parametrize("happen", [suspend_and_back, take_out_and_put_back])
async def test_access_gone_and_back_before_it_is_heard_of_then_the_work_goes_on_in_every_order(
    bench: Bench, happen: Any
) -> None:
    case = await working(bench)
    happen(bench)
    told = told_of_access(bench)
    assert len(told) == 2
    for turn, order in enumerate(itertools.permutations(told)):
        await bench.receive(order, f"-{turn}")
        await bench.receive(order, f"-{turn}-again")
        await bench.rest(listen=False)
    spec = await row_of(bench, case)
    assert (spec.state, spec.cancel_reason) == (SpecState.IMPLEMENTING, None)


async def test_uninstalled_and_installed_again_then_what_was_owed_is_told_and_a_retry_works(
    bench: Bench,
) -> None:
    number = await start(bench)
    bench.github.uninstall(bench.installation_id, "alice")
    await bench.receive(told_of_access(bench))
    await bench.pass_time(15)  # the sandbox is asked to stop, and half a second later it has
    assert (await bench.spec()).state is SpecState.CANCELLED
    owner = bench.name.split("/", maxsplit=1)[0]
    bench.installation_id = int(bench.github.install(bench.app_id, owner, by="alice")["id"])
    await bench.receive(told_of_access(bench))
    await bench.pass_time(15)
    assert "no longer has access" in bench.status(number)
    say(bench, number, "/agent retry")
    await bench.pass_time(30)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING
    assert len(bench.sandboxes.orders) == 2


async def test_what_is_told_late_of_an_earlier_installation_does_not_end_the_work_of_the_new_one(
    bench: Bench,
) -> None:
    await know_repository(bench)
    told_of_access(bench)
    bench.github.remove_from_installation(bench.installation_id, "alice", [bench.name])
    bench.github.uninstall(bench.installation_id, "alice")
    told = told_of_access(bench)
    owner = bench.name.split("/", maxsplit=1)[0]
    bench.installation_id = int(bench.github.install(bench.app_id, owner, by="alice")["id"])
    told += told_of_access(bench)
    assert sorted(one["payload"]["action"] for one in told) == ["created", "deleted", "removed"]
    await start(bench)
    for turn, order in enumerate(itertools.permutations(told)):
        for suffix in (f"-{turn}", f"-{turn}-again"):
            for one in order:
                await bench.receive([one], suffix)
                await bench.take_in()
    await bench.rest(listen=False)
    spec = await bench.spec()
    assert (spec.state, spec.cancel_reason) == (SpecState.IMPLEMENTING, None)
    assert spec.installation_id == bench.installation_id
    async with bench.db.read() as session:
        repository = await find_repository(session, bench.repo_id)
    assert repository is not None
    assert repository.state == "active"


async def test_new_installation_is_heard_of_before_the_end_of_the_earlier_one_then_the_work_goes_on_there(
    bench: Bench,
) -> None:
    await know_repository(bench)
    await start(bench)
    bench.github.uninstall(bench.installation_id, "alice")
    end = [one for one in told_of_access(bench) if one["payload"]["action"] == "deleted"]
    owner = bench.name.split("/", maxsplit=1)[0]
    bench.installation_id = int(bench.github.install(bench.app_id, owner, by="alice")["id"])
    for one in (*told_of_access(bench), *end):
        await bench.receive([one])
        await bench.take_in()
    await bench.rest(listen=False)
    spec = await bench.spec()
    assert (spec.state, spec.installation_id) == (SpecState.IMPLEMENTING, bench.installation_id)


async def test_repository_gets_another_owner_before_an_answer_is_written_then_it_is_written_there(
    bench: Bench,
) -> None:
    number = await start(bench)
    listen_to_everything(bench)
    bench.new_deliveries()
    say(bench, number, "/agent status")
    await bench.receive(bench.new_deliveries())
    await bench.take_in()
    owner = f"{bench.name.split('/', maxsplit=1)[0]}-new"
    bench.github.create_org(owner, ["alice"])
    bench.github.install(bench.app_id, owner, by="alice")
    bench.github.transfer_repo(bench.name, "alice", owner)
    bench.name = f"{owner}/kit"
    await bench.receive(bench.new_deliveries())
    await bench.take_in()
    await bench.rest()
    assert len(replies(bench, number)) == 1
