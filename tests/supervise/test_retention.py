"""Events of work that ended long ago go to a file, whole, and only then out of the database."""

from __future__ import annotations

import gzip
import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update

from app.db.artifacts import record_chunk, record_current, record_upload
from app.db.event_texts import compress
from app.db.events import NewEvent, record_events
from app.db.models import Artifact, Event, EventText, Intervention, Sandbox, Spec
from app.domain.ids import SandboxId
from app.domain.states import SandboxState, SpecState
from app.observability.crashpoints import CrashPointReached, arm
from tests.db.rows import add_sandbox, add_spec, set_spec
from tests.worker.bench import Bench
from worker.supervise import retention
from worker.supervise.retention import Retention

DIFF = "+" + "x" * 30_000


@pytest.fixture
def kept(bench: Bench) -> Iterator[Bench]:
    """A bench whose worker keeps events for thirty days."""
    bench.parts = replace(bench.parts, keep_events=timedelta(days=30))
    yield bench
    arm("", bench.parts.home)


async def work(bench: Bench, *, state: SpecState = SpecState.COMPLETED) -> str:
    """A sandbox that ended now, with three events, one of them with a long diff, and a transcript; its id."""
    now = bench.clock()
    spec_id = await add_spec(bench.db)
    await set_spec(bench.db, spec_id, state=state, ended_at=now)
    sandbox_id = await add_sandbox(bench.db, spec_id, state=SandboxState.COMPLETED, ended_at=now)
    full = {"full_diff": compress(DIFF)}
    events = [
        NewEvent(1, "agent.started", {}, "agent", now),
        NewEvent(2, "agent.file_edited", {"file_path": "a", "full_diff": "cut"}, "agent", now, full),
        NewEvent(3, "agent.completed", {}, "agent", now),
    ]
    async with bench.db.write() as session:
        await record_events(session, await session.get_one(Sandbox, sandbox_id), events, now)
        artifact = await record_upload(session, SandboxId(sandbox_id), "transcript.tar.gz", "0" * 64, now)
        await record_chunk(session, artifact, 0, b"what was said")
        await record_current(session, SandboxId(sandbox_id), "transcript.tar.gz", artifact, 13)
    return sandbox_id


async def count(bench: Bench) -> tuple[int, int, int]:
    """Events, whole texts and transcripts in the database."""
    async with bench.db.read() as session:
        found = [
            await session.scalar(select(func.count()).select_from(table)) for table in (Event, EventText)
        ]
        transcripts = select(func.count()).where(Artifact.name == "transcript.tar.gz")
        return int(found[0] or 0), int(found[1] or 0), int(await session.scalar(transcripts) or 0)


def archived(bench: Bench, sandbox_id: str) -> list[dict[str, Any]]:
    (path,) = (bench.parts.home / "archive").glob(f"*/{sandbox_id}.jsonl.gz")
    assert path.stat().st_mode & 0o777 == 0o600
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


async def test_work_that_ended_long_ago_is_archived_whole_then_removed(kept: Bench) -> None:
    sandbox_id = await work(kept)
    kept.clock.add(29 * 86_400)
    assert await Retention(kept.parts).look() == 0
    assert await count(kept) == (3, 1, 1)
    kept.clock.add(2 * 86_400)
    assert await Retention(kept.parts).look() == 1
    assert await count(kept) == (0, 0, 0)
    head, *events = archived(kept, sandbox_id)
    assert head["sandbox"]["id"] == sandbox_id
    assert "token_hash" not in head["sandbox"]
    assert [one["seq"] for one in events] == [1, 2, 3]
    assert events[1]["event_data"]["full_diff"] == DIFF
    (transcript,) = (kept.parts.home / "archive").glob(f"*/{sandbox_id}.transcript.tar.gz")
    assert transcript.read_bytes() == b"what was said"
    (box,) = await kept.boxes()
    assert box.archived_at is not None
    assert box.events_removed_at is not None
    kept.clock.add(3600)
    assert await Retention(kept.parts).look() == 0


async def intervene(bench: Bench, sandbox_id: str, at_seq: int, event_type: str) -> None:
    fields = {"rule": "command", "text": "Try something else.", "created_at": bench.clock(), "task_id": None}
    async with bench.db.write() as session:
        spec_id = (await session.get_one(Sandbox, sandbox_id)).spec_id
        session.add(
            Intervention(
                id=uuid.uuid4(), sandbox_id=sandbox_id, spec_id=spec_id, at_seq=at_seq, event_type=event_type, **fields
            )
        )  # fmt: skip


@pytest.mark.parametrize("page", [1, 2, 3, 500])
async def test_what_was_done_about_an_agent_stands_in_its_archive_once_in_its_place(
    kept: Bench, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "PAGE", page)
    sandbox_id = await work(kept)
    await intervene(kept, sandbox_id, 3, "guardian.nudged")
    await intervene(kept, sandbox_id, 4, "guardian.paused")
    kept.clock.add(31 * 86_400)
    assert await Retention(kept.parts).look() == 1
    events = archived(kept, sandbox_id)[1:]
    assert [(one["seq"], one["event_type"]) for one in events] == [
        (1, "agent.started"), (2, "agent.file_edited"), (3, "guardian.nudged"), (3, "agent.completed"),
        (4, "guardian.paused"),
    ]  # fmt: skip
    assert (events[2]["source"], events[2]["event_data"]["message"]) == ("system", "Try something else.")


@pytest.mark.parametrize(
    "point", ["archive.before", "archive.after", "forget_events.before", "forget_events.after"]
)
async def test_worker_dies_while_it_archives_then_the_next_look_ends_it_and_nothing_is_lost(
    kept: Bench, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "REMOVED_AT_ONCE", 2)
    sandbox_id = await work(kept)
    kept.clock.add(31 * 86_400)
    arm(f"{point}=raise", kept.parts.home)
    with pytest.raises(CrashPointReached):
        await Retention(kept.parts).look()
    kept.clock.add(3600)
    assert await Retention(kept.another_worker()).look() == 1
    assert await count(kept) == (0, 0, 0)
    assert [one["seq"] for one in archived(kept, sandbox_id)[1:]] == [1, 2, 3]


async def test_live_work_is_never_touched_however_old(kept: Bench) -> None:
    await work(kept, state=SpecState.IN_REVIEW)
    kept.clock.add(400 * 86_400)
    assert await Retention(kept.parts).look() == 0
    assert await count(kept) == (3, 1, 1)


async def test_work_that_lives_again_after_it_was_archived_keeps_its_events(kept: Bench) -> None:
    await work(kept)
    kept.clock.add(31 * 86_400)
    arm("archive.after=raise", kept.parts.home)
    with pytest.raises(CrashPointReached):
        await Retention(kept.parts).look()
    async with kept.db.write() as session:
        await session.execute(update(Spec).values(state=SpecState.QUEUED))
    kept.clock.add(3600)
    assert await Retention(kept.parts).look() == 0
    assert await count(kept) == (3, 1, 1)


async def test_archive_can_not_be_written_then_nothing_is_removed(kept: Bench) -> None:
    await work(kept)
    kept.clock.add(31 * 86_400)
    kept.parts.home.mkdir(parents=True, exist_ok=True)
    Path(kept.parts.home / "archive").write_text("in the way")
    with pytest.raises(OSError):
        await Retention(kept.parts).look()
    assert await count(kept) == (3, 1, 1)


async def test_nothing_is_removed_where_everything_is_kept(bench: Bench) -> None:
    await work(bench)
    bench.clock.add(4_000 * 86_400)
    assert await Retention(bench.parts).look() == 0


async def test_one_worker_at_a_time_looks(kept: Bench) -> None:
    await work(kept)
    kept.clock.add(31 * 86_400)
    assert await Retention(kept.parts).look() == 1
    assert await Retention(kept.another_worker()).look() == 0
