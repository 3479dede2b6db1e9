"""`issuewright sandboxes compare`, `cleanup` and `events --diff` over a database with two sandboxes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from app.db.engine import Database
from app.db.events import NewEvent, record_events
from app.db.host import host_id
from app.db.models import Sandbox, Task
from app.domain.states import SandboxState
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
    assert issuewright.run("sandboxes", "compare", boxes[0], "sbx_none").code == 1


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
