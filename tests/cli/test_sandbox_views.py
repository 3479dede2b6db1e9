"""`issuewright sandboxes compare`, `cleanup` and `events --diff` over a database with two sandboxes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from app.db.artifacts import record_chunk, record_current, record_upload
from app.db.engine import Database
from app.db.events import NewEvent, record_events
from app.db.host import host_id
from app.db.models import Sandbox, Task
from app.domain.ids import SandboxId
from app.domain.states import SandboxState
from app.domain.supervision import LOG_TAIL
from tests.cli.running import Issuewright
from tests.db.rows import add_sandbox, add_spec, get_sandbox, get_task

AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DIFF = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-old\n+new \x1b[31mred\n"


async def report(db: Database, sandbox_id: str, *events: tuple[str, dict[str, object]]) -> None:
    async with db.write() as session:
        row = await session.get(Sandbox, sandbox_id)
        assert row is not None
        for seq, (event_type, data) in enumerate(events, 1):
            at = AT + timedelta(seconds=10 * seq)
            await record_events(session, row, [NewEvent(seq, event_type, data, "agent", at)], at)


@pytest.fixture
async def boxes(migrated: Path, home: Path) -> tuple[str, str]:
    """One that planned and one that built, both ended a day ago on this host."""
    db = Database(f"sqlite+aiosqlite:///{migrated}")
    spec_id = await add_spec(db)
    values = {
        "host_id": host_id(home),
        "state": SandboxState.FAILED,
        "started_at": AT,
        "ended_at": AT + timedelta(seconds=90),
    }
    planned = await add_sandbox(db, spec_id, task_id=None, turns=7, **values)
    built = await add_sandbox(db, spec_id, turns=3, spent_usd=1.5, model_key_of="user", **values)
    task = await get_task(db, spec_id)
    async with db.write() as session:
        ran = {"command": "make test", "exit_code": 0, "seconds": 2.0, "output": "all of it"}
        await session.execute(update(Task).where(Task.id == task.id).values(detail={"test": ran}))
    await report(
        db, planned, ("spec.phase_started", {"phase": "explore"}), ("spec.phase_retry", {"phase": "explore"}),
        ("spec.phase_completed", {"phase": "explore"}), ("agent.error", {}),
    )  # fmt: skip
    edit = {
        "file_path": "x.py",
        "change": "modified",
        "lines_added": 1,
        "lines_removed": 1,
        "full_diff": DIFF,
    }
    await report(db, built, ("agent.file_edited", edit), ("agent.tool_use", {}), ("agent.file_edited", edit))
    await db.aclose()
    return planned, built


def test_two_sandboxes_side_by_side(issuewright: Issuewright, boxes: tuple[str, str]) -> None:
    left, right = json.loads(issuewright.run("sandboxes", "compare", *boxes, "--json").out)["items"]
    assert left["phases"] == {"explore": {"state": "completed", "seconds": 20.0, "attempts": 2}}
    assert (left["errors"], left["turns"], left["seconds"], left["test"]) == (1, 7, 90.0, None)
    assert right["files"] == {"x.py": {"added": 2, "removed": 2}}
    assert (right["cost_usd"], right["test"]["exit_code"], right["model_key_of"]) == (1.5, 0, "user")
    answer = issuewright.run("sandboxes", "compare", *boxes)
    rows = dict(line.split("\t", 1) for line in answer.out.splitlines())
    assert rows["measure"] == "\t".join(boxes)
    assert rows["phase explore"] == "completed, 20 s, 2 attempts\t-"
    assert rows["file x.py"] == "-\t+2 -2"
    assert rows["test"] == "-\tpassed"
    assert rows["model key of"] == "-\tuser"
    assert issuewright.run("sandboxes", "compare", boxes[0], "sbx_none").code == 1


async def test_times_to_come_and_the_end_of_an_agent_are_told_as_such(
    issuewright: Issuewright, boxes: tuple[str, str], migrated: Path
) -> None:
    db = Database(f"sqlite+aiosqlite:///{migrated}")
    async with db.write() as session:
        values = {"activity": "waiting", "deadline_at": datetime.now(UTC) + timedelta(minutes=45, seconds=20)}
        await session.execute(update(Sandbox).where(Sandbox.id == boxes[1]).values(**values))
    await db.aclose()
    lines = issuewright.run("sandboxes", "show", boxes[1]).out.splitlines()
    shown = {line[:20].strip(): line[20:].strip() for line in lines}
    assert shown["deadline at"] == "in 45 min"
    assert shown["ended at"].endswith(" ago")
    assert shown["activity"] == "ended"


def test_diff_is_shown_with_its_marks_and_without_what_a_terminal_obeys(
    issuewright: Issuewright, boxes: tuple[str, str]
) -> None:
    out = issuewright.run("sandboxes", "events", boxes[1], "--diff").out
    assert "       -old\n       +new red\n" in out
    assert "\x1b" not in out


async def test_cleanup_says_what_it_would_do_then_does_it_once(
    issuewright: Issuewright, migrated: Path, boxes: tuple[str, str]
) -> None:
    def cleanup(*more: str) -> list[tuple[str, str, str]]:
        answer = issuewright.run("sandboxes", "cleanup", "--json", *more)
        assert answer.code == 0, answer.err
        items = json.loads(answer.out)["items"]
        return sorted((one["kind"], one["sandbox_id"], one["done"]) for one in items)

    assert cleanup("--dry-run") == sorted(("row", box, "would be noted as removed") for box in boxes)
    assert cleanup("--dry-run") == cleanup("--dry-run")
    assert cleanup() == sorted(("row", box, "noted as removed") for box in boxes)
    assert cleanup() == []
    db = Database(f"sqlite+aiosqlite:///{migrated}")
    assert (await get_sandbox(db, boxes[0])).removed_at is not None
    await db.aclose()


NO_APP = dict.fromkeys(("GITHUB_APP_ID", "GITHUB_APP_PRIVATE_KEY", "GITHUB_WEBHOOK_SECRET"))


def test_cleanup_without_the_apps_settings_knows_its_machines_by_its_database(
    issuewright: Issuewright, boxes: tuple[str, str]
) -> None:
    answer = issuewright.run("sandboxes", "cleanup", "--dry-run", "--json", **NO_APP)
    assert answer.code == 0, answer.err
    found = {one["name"] for one in json.loads(answer.out)["items"]}
    assert found == {f"iw-test-{box}" for box in boxes}


def test_cleanup_without_any_word_of_whose_machines_they_are_says_what_is_missing(
    issuewright: Issuewright, migrated: Path
) -> None:
    answer = issuewright.run("sandboxes", "cleanup", "--dry-run", **NO_APP)
    assert (answer.code, "GITHUB_APP_ID" in answer.err) == (2, True)


@pytest.fixture
async def lost(migrated: Path, home: Path) -> tuple[str, str]:
    """One that did nothing any more and was ended, and the next attempt."""
    db = Database(f"sqlite+aiosqlite:///{migrated}")
    spec_id = await add_spec(db)
    values = {"host_id": host_id(home), "state": SandboxState.FAILED, "started_at": AT}
    gone = await add_sandbox(
        db, spec_id, trouble="idle", reason="idle", created_at=AT, stop_asked_at=AT + timedelta(minutes=10),
        ended_at=AT + timedelta(minutes=11), removed_at=AT + timedelta(minutes=11), **values,
    )  # fmt: skip
    following = await add_sandbox(
        db, spec_id, task_id=(await get_task(db, spec_id)).id, attempt=2, created_at=AT + timedelta(minutes=12),
        ended_at=AT + timedelta(minutes=13), **values,
    )  # fmt: skip
    await report(db, gone, ("agent.started", {}), ("agent.tool_use", {}))
    tail = b"starting\n\x1b[31mthe last words\x1b[0m\n"
    async with db.write() as session:
        kept = await record_upload(session, SandboxId(gone), LOG_TAIL, "", AT + timedelta(minutes=11))
        await record_chunk(session, kept, 0, tail)
        await record_current(session, SandboxId(gone), LOG_TAIL, kept, len(tail))
    await db.aclose()
    return gone, following


def test_lost_sandbox_shows_what_was_seen_and_what_was_done(
    issuewright: Issuewright, lost: tuple[str, str]
) -> None:
    gone, following = lost
    told = json.loads(issuewright.run("sandboxes", "show", gone, "--json").out)["supervision"]
    assert (told["trouble"], told["log_bytes"]) == ("idle", 33)
    assert [line[20:] for line in told["done"]] == [
        "asked to wrap up", "the end of its log kept", "counted as failed (idle)", "found gone, or removed",
        f"another attempt made: {following}",
    ]  # fmt: skip
    shown = issuewright.run("sandboxes", "show", gone).out
    assert "trouble" in shown
    assert "idle: It lived, and nothing in it did any work." in shown
    assert f"another attempt made: {following}" in shown
    assert f"sandboxes logs {gone}" in shown
    well = json.loads(issuewright.run("sandboxes", "show", following, "--json").out)
    assert well["supervision"] is None


def test_log_of_a_machine_that_is_gone_is_the_end_that_was_kept(
    issuewright: Issuewright, lost: tuple[str, str]
) -> None:
    answer = issuewright.run("sandboxes", "logs", lost[0])
    assert answer.out == "starting\nthe last words\n"
    assert "its machine is gone" in answer.err
    as_json = json.loads(issuewright.run("sandboxes", "logs", lost[0], "--json").out)
    assert as_json == {"sandbox_id": lost[0], "kept": True, "text": "starting\nthe last words\n"}


def test_events_of_a_lost_sandbox_end_with_its_trouble(
    issuewright: Issuewright, lost: tuple[str, str]
) -> None:
    lines = issuewright.run("sandboxes", "events", lost[0]).out.splitlines()
    assert [line.split()[2] for line in lines] == ["agent.started", "agent.tool_use", "supervision.trouble"]
    assert "idle" in lines[-1]
    last = json.loads(issuewright.run("sandboxes", "events", lost[0], "--json").out.splitlines()[-1])
    assert last["event_data"]["trouble"] == "idle"
    assert lost[1] in last["event_data"]["done"][-1]
    assert "supervision" not in issuewright.run("sandboxes", "events", lost[1]).out


async def test_log_whose_beginning_was_dropped_is_shown_once_from_where_it_is_kept(
    issuewright: Issuewright, migrated: Path, home: Path
) -> None:
    db = Database(f"sqlite+aiosqlite:///{migrated}")
    flooding = await add_sandbox(
        db, await add_spec(db), host_id=host_id(home), state=SandboxState.FAILED, started_at=AT,
        ended_at=AT + timedelta(seconds=90),
    )  # fmt: skip
    await db.aclose()
    log = home / "sandboxes" / f"iw-test-{flooding}" / "log"
    log.mkdir(parents=True)
    (log / "000000000100000").write_bytes(b"caf\xc3\xa9 \xff\n" * 9_000)
    (log / "000000000172000").write_bytes(b"the last line\n")
    whole = "caf\N{LATIN SMALL LETTER E WITH ACUTE} \N{REPLACEMENT CHARACTER}\n" * 9_000 + "the last line\n"
    answer = issuewright.run("sandboxes", "logs", flooding)
    assert (answer.code, answer.out) == (0, whole)
    assert "100000 bytes before this were dropped" in answer.err
    followed = issuewright.run("sandboxes", "logs", flooding, "-f")
    assert (followed.code, followed.out) == (0, whole)
    as_json = json.loads(issuewright.run("sandboxes", "logs", flooding, "--json").out)
    assert as_json == {"sandbox_id": flooding, "kept": False, "text": whole}
