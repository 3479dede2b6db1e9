"""`issuewright deliveries`: what came in, and having it taken in again."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.running import Issuewright

NOW = datetime.now(UTC)
STORED = {
    # GUID: (state, received this long ago)
    "old-failure": ("failed", timedelta(days=5)),
    "new-failure": ("failed", timedelta(minutes=30)),
    "handled": ("handled", timedelta(minutes=20)),
    "ignored": ("ignored", timedelta(minutes=10)),
}


@pytest.fixture
def database(migrated: Path) -> Path:
    with closing(sqlite3.connect(migrated)) as db:
        for guid, (state, age) in STORED.items():
            received_at = (NOW - age).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            db.execute(
                "INSERT INTO delivery (id, event, headers, body, received_at, state, attempts, reason) "
                "VALUES (?, 'issues', '{}', x'7b7d', ?, ?, 7, 'because')",
                (guid, received_at, state),
            )
        db.commit()
    return migrated


def waiting(database: Path) -> set[str]:
    with closing(sqlite3.connect(database)) as db:
        rows = db.execute(
            "SELECT id FROM delivery WHERE state = 'received' AND attempts = 0 AND reason IS NULL"
        )
        return {row[0] for row in rows}


def test_when_a_state_is_named_then_only_those_are_listed_newest_first(
    issuewright: Issuewright, database: Path
) -> None:
    listed = json.loads(issuewright.run("deliveries", "list", "--json").out)["items"]
    assert [row["id"] for row in listed] == list(STORED)[::-1]
    failed = issuewright.run("deliveries", "list", "--state", "failed").out.splitlines()
    assert [line.split("\t")[0] for line in failed[1:]] == ["new-failure", "old-failure"]
    assert issuewright.run("deliveries", "list", "--state", "received").err == "no delivery is received\n"


def test_when_no_terminal_listens_then_every_line_is_whole(issuewright: Issuewright, database: Path) -> None:
    reason = "because " * 50 + "of its end"
    with closing(sqlite3.connect(database)) as db:
        db.execute("UPDATE delivery SET reason = ?", (reason,))
        db.commit()
    head, *lines = issuewright.run("deliveries", "list", COLUMNS="80").out.splitlines()
    at = head.split("\t").index("reason")
    assert [line.split("\t")[at] for line in lines] == [reason] * len(STORED)


@pytest.mark.parametrize(
    ("since", "replayed"),
    [
        ([], ["old-failure", "new-failure"]),
        (["--since", "2h"], ["new-failure"]),
        (["--since", "6d"], ["old-failure", "new-failure"]),
        (["--since", (NOW - timedelta(days=1)).isoformat()], ["new-failure"]),
        (["--since", "10min"], []),
    ],
    ids=["all", "hours", "days", "a time", "none"],
)
def test_when_all_failed_are_replayed_then_those_and_no_others(
    issuewright: Issuewright, database: Path, since: list[str], replayed: list[str]
) -> None:
    answer = issuewright.run("deliveries", "replay", "--failed", *since, "--json")
    assert (answer.code, json.loads(answer.out)) == (0, {"replayed": replayed})
    assert waiting(database) == set(replayed)
    again = issuewright.run("deliveries", "replay", "--failed", *since)
    assert (again.code, again.out.startswith("nothing to take in again")) == (0, True)


def test_when_one_is_named_then_it_is_taken_in_again_whatever_its_state(
    issuewright: Issuewright, database: Path
) -> None:
    for guid in ("handled", "old-failure"):
        answer = issuewright.run("deliveries", "replay", guid)
        assert (answer.code, answer.out) == (0, f"{guid} will be taken in again\n")
    assert waiting(database) == {"handled", "old-failure"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "either a GUID or --failed"),
        (["handled", "--failed"], "either a GUID or --failed"),
        (["handled", "--since", "2h"], "--since goes with --failed"),
        (["--failed", "--since", "yesterday"], "neither a span"),
        (["--failed", "--since", "-1h"], "neither a span"),
        (["--failed", "--since", "2999-01-01"], "still to come"),
    ],
    ids=" ".join,
)
def test_when_asked_for_nonsense_then_exit_2_says_what_is_wrong_and_nothing_changes(
    issuewright: Issuewright, database: Path, arguments: list[str], said: str
) -> None:
    answer = issuewright.run("deliveries", "replay", *arguments)
    assert answer.code == 2
    assert said in answer.err
    assert waiting(database) == set()


def test_when_a_delivery_never_arrived_then_one_line_says_who_can_send_it_again(
    issuewright: Issuewright, database: Path
) -> None:
    answer = issuewright.run("deliveries", "replay", "0b1c-unknown")
    assert answer.code == 1
    assert answer.err.count("\n") == 1
    assert "can only be sent again by GitHub" in answer.err
