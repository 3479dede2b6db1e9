"""One merge lets GitHub tell four things. In every order, each of them twice, the work is completed."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from sqlalchemy import delete, update

from app.db.models import CheckRun, Delivery, Spec
from app.domain.states import SpecState
from tests.worker.bench import Bench
from tests.worker.lifecycle import Case, comments, make, row_of
from tests.worker.test_lifecycle_table import know_repository, listen_to_everything

TOLD = ("issues", "pull_request", "push", "delete")


async def merge(bench: Bench, state: SpecState, base: str = "main") -> tuple[Case, list[dict[str, Any]]]:
    """A spec in that state whose pull request was merged, its branch deleted with it; what GitHub told of that."""
    listen_to_everything(bench)
    await know_repository(bench)
    case = await make(bench, state, pull=True)
    await bench.rest(listen=False)
    if base != "main":
        bench.github.create_branch(bench.name, "alice", base)
        bench.github.retarget_pull(bench.name, case.pull or 0, "alice", base)
    bench.github.edit_issue(bench.name, case.pull or 0, "alice", body=f"Closes #{case.number}")
    bench.github.set_draft(bench.name, case.pull or 0, "alice", draft=False)
    bench.new_deliveries()
    bench.github.merge_pull(bench.name, case.pull or 0, "alice", delete_branch=True)
    found = [one for one in bench.new_deliveries() if one["event"] in TOLD and is_of_the_end(one["payload"])]
    return case, found


def is_of_the_end(payload: dict[str, Any]) -> bool:
    """Not the push to the base branch."""
    return payload.get("action", "closed") == "closed" and payload.get("deleted", True)


async def begin_again(bench: Bench, case: Case, state: SpecState) -> None:
    """As before the merge was heard of."""
    values: dict[str, Any] = {
        "state": state, "pull_state": "open", "cancel_reason": None, "cancel_asked_at": None, "concluded_at": None,
        "ended_at": None, "branch_told": 0, "branch_seen": 0, "status_body_sha": None, "due_at": bench.clock.far,
        "outcome": "done" if state is SpecState.IN_REVIEW else None,
    }  # fmt: skip
    async with bench.db.write() as session:
        await session.execute(update(Spec).where(Spec.id == case.spec_id).values(**values))
        await session.execute(delete(Delivery))
        await session.execute(delete(CheckRun))


@pytest.mark.parametrize(("state", "every"), [(SpecState.IN_REVIEW, 1), (SpecState.PAUSED, 5)])
async def test_merge_told_in_any_order_and_twice_then_completed(
    bench: Bench, state: SpecState, every: int
) -> None:
    case, told = await merge(bench, state)
    assert sorted(one["event"] for one in told) == sorted(TOLD)
    for order in list(itertools.permutations(told))[::every]:
        await begin_again(bench, case, state)
        await bench.receive([one for delivery in order for one in (delivery, twin(delivery))])
        await bench.rest(listen=False)
        spec = await row_of(bench, case)
        names = [one["event"] for one in order]
        assert (spec.state, spec.pull_state) == (SpecState.COMPLETED, "merged"), names
        assert spec.concluded_at is not None, names
    [status] = comments(bench, case)
    assert "Merged" in status


def twin(delivery: dict[str, Any]) -> dict[str, Any]:
    """The same event under another number, as a second hook tells it."""
    return {**delivery, "guid": f"{delivery['guid']}-twin"}


async def test_merged_into_another_base_while_paused_then_the_issue_is_closed_by_the_app(
    bench: Bench,
) -> None:
    case, told = await merge(bench, SpecState.PAUSED, base="next")
    assert bench.github.issue(bench.name, case.number)["state"] == "open"
    await bench.receive(told)
    await bench.rest(listen=False)
    assert (await row_of(bench, case)).state is SpecState.COMPLETED
    assert bench.github.issue(bench.name, case.number)["state"] == "closed"


async def test_merged_into_what_is_no_longer_the_default_branch_then_the_issue_is_closed_by_the_app(
    bench: Bench,
) -> None:
    listen_to_everything(bench)
    bench.github.create_branch(bench.name, "alice", "next")
    await know_repository(bench)
    case = await make(bench, SpecState.IN_REVIEW, pull=True)
    bench.github.set_default_branch(bench.name, "alice", "next")
    bench.github.merge_pull(bench.name, case.pull or 0, "alice")
    await bench.rest()
    assert (await row_of(bench, case)).state is SpecState.COMPLETED
    assert bench.github.issue(bench.name, case.number)["state"] == "closed"
