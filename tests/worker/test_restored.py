"""The database is from yesterday, or the worker starts again and again: what is there is found, nothing comes twice."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.worker.bench import Bench
from tests.worker.test_life import finish
from worker.engine import Engine

pytestmark = pytest.mark.sqlite_only


def copy(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


def database_of(bench: Bench) -> Path:
    return Path(make_url(bench.db.url).database or "")


def the_one_pull(bench: Bench) -> int:
    """One branch beside main, one pull request, one status comment."""
    [pull] = bench.github.pulls(bench.name)
    assert bench.branches() == {"main", pull["head"]["ref"]}
    assert len([text for text in bench.comments(1) if "part=status" in text]) == 1
    return int(pull["number"])


async def test_database_of_any_earlier_moment_then_branch_pull_request_and_comment_are_found_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.label(bench.open_issue())
    await bench.receive(bench.new_deliveries())
    await bench.take_in()
    spec_id, saved = (await bench.spec()).id, []
    with monkeypatch.context() as patched:
        patched.setattr("worker.engine.MAX_STEPS_A_CALL", 1)
        for steps in range(5):
            saved.append(bench.scratch / f"{steps}.db")
            copy(database_of(bench), saved[-1])
            await Engine(bench.parts).advance(spec_id)
    await bench.rest(listen=False)
    number = the_one_pull(bench)
    for path in reversed(saved):
        copy(path, database_of(bench))
        await bench.rest(listen=False)
        assert the_one_pull(bench) == number, path.name
    await finish(bench, 1)


async def test_database_from_before_the_delivery_then_its_commits_are_kept_and_the_end_is_the_same(
    bench: Bench,
) -> None:
    bench.label(bench.open_issue())
    await bench.receive(bench.new_deliveries())
    await bench.take_in()
    saved = bench.scratch / "yesterday.db"
    copy(database_of(bench), saved)
    await bench.rest(listen=False)
    await finish(bench, 1)
    number, head = the_one_pull(bench), bench.github.pulls(bench.name)[0]["head"]["sha"]
    copy(saved, database_of(bench))
    await bench.rest(listen=False)
    assert bench.sandboxes.newest.start_sha == head
    await bench.hand_in(text="more\n")
    await bench.rest(listen=False)
    assert the_one_pull(bench) == number
    assert "Done" in bench.status(1)
