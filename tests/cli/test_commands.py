from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import update

from app import __version__
from app.db.engine import Database
from app.db.models import Spec
from app.db.phases import record_phases
from app.db.specs import NewSpec, record_spec
from app.domain.states import Flow
from tests.cli.running import Issuewright

COMMANDS = [
    *(["demo"], ["up"], ["web"], ["worker"], ["migrate"], ["register"], ["doctor"]),
    *([noun, verb] for noun in ("specs", "tasks", "sandboxes") for verb in ("list", "show")),
    *(["specs", "bundle"], ["sandboxes", "events"], ["sandboxes", "logs"]),
    *(["sandboxes", "compare"], ["sandboxes", "cleanup"]),
    ["messages", "send"],
    *(["deliveries", "list"], ["deliveries", "replay"]),
    *(["credentials", verb] for verb in ("set", "list", "remove", "rotate")),
]


def add_delivery(database: Path) -> None:
    with closing(sqlite3.connect(database)) as db:
        db.execute(
            "INSERT INTO delivery (id, event, headers, body, received_at, state, attempts, reason) "
            "VALUES ('guid-1', 'issues', '{}', x'7b7d', '2026-01-02T03:04:05.000000Z', 'failed', 7, 'boom')"
        )
        db.commit()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help(issuewright: Issuewright, command: list[str]) -> None:
    answer = issuewright.run(*command, "--help")
    assert (answer.code, answer.err) == (0, "")
    assert "Usage: " in answer.out


def loaded_for(issuewright: Issuewright, *arguments: str) -> set[str]:
    """The modules that the command loads."""
    done = subprocess.run(
        [sys.executable, "-P", "-X", "importtime", "-m", "app", *arguments],
        env=issuewright.environment(),
        cwd=issuewright.home,
        capture_output=True,
        text=True,
        check=False,
    )
    return {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}


def test_help_loads_no_library_that_takes_long(issuewright: Issuewright) -> None:
    # Of one command: what any of them loads at once, all of them do.
    loaded = loaded_for(issuewright, "up", "--help")
    assert "app.cli.specs" in loaded
    # Not pydantic: Typer takes every option's value through it.
    heavy = {"sqlalchemy", "fastapi", "arq", "alembic", "httpx", "githubkit", "rich", "pydantic_settings"}
    assert loaded & heavy == set()


@pytest.mark.parametrize("arguments", [["specs", "list"], ["sandboxes", "show", "sbx_none"]], ids=" ".join)
def test_reading_loads_no_server_and_no_migration_library(
    issuewright: Issuewright, migrated: Path, arguments: list[str]
) -> None:
    loaded = loaded_for(issuewright, *arguments)
    assert "sqlalchemy" in loaded
    assert (
        loaded & {"fastapi", "uvicorn", "alembic", "arq", "githubkit", "httpx", "prometheus_client"} == set()
    )


def test_version_is_told(issuewright: Issuewright) -> None:
    assert issuewright.run("--version").out == f"issuewright {__version__}\n"


def test_migrate_twice_says_there_is_nothing_to_do(issuewright: Issuewright) -> None:
    assert "applied 2" in issuewright.run("migrate").out
    assert "nothing to do" in issuewright.run("migrate").out


def test_database_is_in_the_home_whatever_that_is_called(issuewright: Issuewright) -> None:
    """The address of a database has characters with a meaning of their own; a path may have them too."""
    home = issuewright.home / "a%41 b?c#d"
    for words in ("applied", "nothing to do"):
        assert issuewright.run("migrate", ISSUEWRIGHT_HOME=str(home)).out.startswith(words)
    assert (home / "issuewright.db").is_file()
    assert issuewright.run("specs", "list", ISSUEWRIGHT_HOME=str(home)).code == 0
    assert [one.name for one in issuewright.home.iterdir() if one.name.startswith("a")] == [home.name]


async def test_specs_are_listed_as_the_api_answers(issuewright: Issuewright, migrated: Path) -> None:
    db = Database(f"sqlite+aiosqlite:///{migrated}")
    new = NewSpec(
        installation_id=1,
        repo_id=7,
        issue_number=42,
        trigger_key="label:1",
        flow=Flow.QUICK,
        title="Title with an \x1b[31mescape",
        body="",
        issue_labels=("agent:quick",),
        trigger_label="agent:quick",
        labeler_id=5,
        labeler_login="alice",
    )
    async with db.write() as session:
        spec_id = await record_spec(session, new, datetime.now(UTC))
        await record_phases(session, str(spec_id), datetime.now(UTC))
        settings = {"approval": "auto", "base": None, "protected_paths": ["CODEOWNERS"]}
        await session.execute(update(Spec).values(settings=settings))
    await db.aclose()
    (item,) = json.loads(issuewright.run("specs", "list", "--json").out)["items"]
    assert (item["id"], item["state"], item["issue"]) == (spec_id, "queued", 42)
    table = issuewright.run("specs", "list").out.splitlines()
    assert table[0].split("\t")[:2] == ["id", "state"]
    assert "\x1b" not in table[1]
    assert json.loads(issuewright.run("specs", "show", str(spec_id), "--json").out)["labeler"] == "alice"
    shown = issuewright.run("specs", "show", str(spec_id)).out
    assert "alice" in shown
    assert "explore      pending" in shown
    assert "approval: auto" in shown
    assert "base" not in shown
    assert "protected_paths: CODEOWNERS" in shown


def test_unknown_things_exit_1_with_one_line(issuewright: Issuewright, migrated: Path) -> None:
    for arguments in (
        ["specs", "show", "spec_none"],
        ["specs", "bundle", "spec_none"],
        ["tasks", "show", "task_none"],
        ["sandboxes", "events", "sbx_none"],
        ["deliveries", "replay", "none"],
    ):
        answer = issuewright.run(*arguments)
        assert answer.code == 1, (arguments, answer.err)
        assert len(answer.err.splitlines()) == 1
        assert answer.err.startswith("issuewright: ")
    assert list(issuewright.home.glob("spec_none*")) == []


def test_delivery_is_replayed_as_if_it_had_just_come_in(issuewright: Issuewright, migrated: Path) -> None:
    add_delivery(migrated)
    (row,) = json.loads(issuewright.run("deliveries", "list", "--json", "--state", "failed").out)["items"]
    assert (row["id"], row["event"], row["state"], row["reason"]) == ("guid-1", "issues", "failed", "boom")
    for _ in range(2):
        assert issuewright.run("deliveries", "replay", "guid-1").code == 0
    with closing(sqlite3.connect(migrated)) as db:
        found = db.execute("SELECT state, attempts, reason, handled_at FROM delivery").fetchall()
    assert found == [("received", 0, None, None)]


def test_unreachable_database_is_one_line(issuewright: Issuewright) -> None:
    answer = issuewright.run("specs", "list", DATABASE_URL="postgresql+asyncpg://u:hidden-pass@127.0.0.1:9/x")
    assert answer.code == 1
    assert len(answer.err.splitlines()) == 1
    assert "hidden-pass" not in answer.err
