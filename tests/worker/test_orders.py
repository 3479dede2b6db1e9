"""Six deliveries about one issue, heard in every possible order: what is true on GitHub decides each time."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, make_url

from app.domain.ids import IssueNumber
from app.domain.ports import Issue, Permission, RepoRef, User
from tests.worker.bench import Bench

pytestmark = pytest.mark.sqlite_only

STEPS = ("label", "unlabel", "label", "close", "reopen")


def play(bench: Bench) -> tuple[int, list[dict[str, Any]]]:
    """An issue is opened and much happens to it at once; the deliveries about that."""
    number = bench.open_issue()
    actions = {
        "label": lambda: bench.label(number),
        "unlabel": lambda: bench.unlabel(number),
        "close": lambda: bench.github.close_issue(bench.name, number, "alice"),
        "reopen": lambda: bench.github.reopen_issue(bench.name, number, "alice"),
    }
    for step in STEPS:
        actions[step]()
    return number, bench.new_deliveries()[-6:]


async def stand_still(bench: Bench, number: int) -> None:
    """GitHub's answers about the issue, read once for all orders, and a disk that need not be waited for."""
    github = bench.parts.github
    repo = RepoRef(bench.installation_id, bench.repo_id, *bench.name.split("/"))  # type: ignore[arg-type]
    issue = await github.fetch_issue(repo, IssueNumber(number))

    async def fetch_issue(_repo: RepoRef, _number: IssueNumber) -> Issue:
        return issue

    async def fetch_permission(_repo: RepoRef, _user: User) -> Permission:
        return Permission.WRITE

    await bench.parts.identity()
    github.fetch_issue = fetch_issue  # type: ignore[method-assign]
    github.fetch_permission = fetch_permission  # type: ignore[method-assign]
    event.listen(
        bench.db.engine.sync_engine,
        "connect",
        lambda connection, _record: connection.execute("PRAGMA synchronous=OFF"),
    )


async def take(bench: Bench, delivery: dict[str, Any]) -> tuple[object, ...]:
    """Hears one delivery; everything in the database that a later one could be judged by."""
    await bench.receive([delivery])
    await bench.take_in()
    specs = await bench.specs()
    return tuple((one.trigger_key, one.state, one.title, one.cancel_reason) for one in specs)


def copy(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


async def test_six_deliveries_in_each_of_720_orders_end_as_the_issue_stands(bench: Bench) -> None:
    """Orders that have brought the same deliveries and left the same database go on from there as one."""
    number, deliveries = play(bench)
    assert len(deliveries) == 6
    await stand_still(bench, number)
    database = Path(make_url(bench.db.url).database or "")
    await bench.specs()
    copy(database, bench.scratch / "0.db")
    reached: dict[tuple[frozenset[int], object], tuple[Path, int]] = {
        (frozenset(), ()): (bench.scratch / "0.db", 1)
    }
    for _ in deliveries:
        following: dict[tuple[frozenset[int], object], tuple[Path, int]] = {}
        for (heard, _state), (saved, orders) in reached.items():
            for position in sorted(set(range(6)) - heard):
                copy(saved, database)
                state = await take(bench, deliveries[position])
                key = (heard | {position}, state)
                if key not in following:
                    following[key] = (bench.scratch / f"{len(list(bench.scratch.iterdir()))}.db", 0)
                    copy(database, following[key][0])
                following[key] = (following[key][0], following[key][1] + orders)
        reached = following
    assert sum(orders for _, orders in reached.values()) == 720
    for saved, _ in reached.values():
        copy(saved, database)
        live = [spec for spec in await bench.specs() if spec.cancel_asked_at is None]
        assert len(live) == 1
