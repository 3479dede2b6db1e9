"""Leases, fences and versions: who may write, and that no wake-up is lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.db import specs
from app.db.engine import Database
from app.db.retries import record_retry
from app.db.specs import LEASE, NewSpec, claim_spec, release_spec, save_spec
from app.domain.errors import Fenced
from app.domain.states import SPEC_LIVE, SPEC_MOVES, Flow, SpecState

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NEW = NewSpec(
    installation_id=1, repo_id=2, issue_number=3, trigger_key="a", flow=Flow.QUICK, title="t", body="b",
    issue_labels=("bug",), trigger_label="agent:quick", labeler_id=4, labeler_login="alice",
)  # fmt: skip


async def record(db: Database, new: NewSpec = NEW) -> str | None:
    async with db.write() as session:
        return await specs.record_spec(session, new, NOW)


async def claim(db: Database, spec_id: str, now: datetime = NOW, owner: str = "w") -> specs.Claim | None:
    async with db.write() as session:
        return await claim_spec(session, spec_id, owner, now)


async def test_same_issue_labeled_twice_at_once_then_one_spec_is_live(db: Database) -> None:
    made = await asyncio.gather(*(record(db, replace(NEW, trigger_key=str(key))) for key in range(12)))
    assert len([spec_id for spec_id in made if spec_id]) == 1


async def test_one_label_event_reported_by_two_hooks_then_one_spec_even_after_its_end(db: Database) -> None:
    spec_id = await record(db)
    assert spec_id
    held = await claim(db, spec_id)
    assert held
    async with db.write() as session:
        await save_spec(session, spec_id, held.fence, {"state": SpecState.CANCELLED}, NOW)
    assert await record(db) is None
    assert await record(db, replace(NEW, trigger_key="another"))


async def test_fifty_claim_at_once_then_exactly_one_holds_the_lease(db: Database) -> None:
    spec_id = await record(db)
    assert spec_id
    held = await asyncio.gather(*(claim(db, spec_id, owner=f"w{number}") for number in range(50)))
    assert len([one for one in held if one]) == 1


async def test_worker_that_slept_past_its_lease_then_its_write_changes_nothing(db: Database) -> None:
    spec_id = await record(db)
    assert spec_id
    first = await claim(db, spec_id, owner="slept")
    second = await claim(db, spec_id, NOW + LEASE + timedelta(seconds=1), owner="awake")
    assert first
    assert second
    assert second.fence > first.fence
    with pytest.raises(Fenced):
        async with db.write() as session:
            await save_spec(session, spec_id, first.fence, {"branch": "feature/late"}, NOW)
    async with db.write() as session:
        assert not await release_spec(session, first, NOW, 0, NOW)
        await save_spec(session, spec_id, second.fence, {"branch": "feature/right"}, NOW)
    async with db.read() as session:
        spec = await specs.find_spec(session, spec_id)
    assert spec
    assert spec.branch == "feature/right"


async def test_fact_during_a_step_then_the_spec_is_due_again_at_once(db: Database) -> None:
    spec_id = await record(db)
    assert spec_id
    held = await claim(db, spec_id)
    assert held
    later = NOW + timedelta(hours=1)
    async with db.write() as session:
        await specs.record_fact(session, spec_id, NOW)
        await release_spec(session, held, later, 0, NOW)
    again = await claim(db, spec_id)
    assert again
    async with db.write() as session:
        await release_spec(session, again, later, 0, NOW)
    assert await claim(db, spec_id) is None, "nothing new and not due"
    assert await claim(db, spec_id, later)


@pytest.mark.parametrize("db", ["sqlite"], indirect=True)  # the table is the same everywhere
@pytest.mark.parametrize("target", list(SpecState))
@pytest.mark.parametrize("source", list(SpecState))
async def test_states_follow_the_table_and_nothing_else(
    db: Database, source: SpecState, target: SpecState
) -> None:
    spec_id = await record(db)
    assert spec_id
    held = await claim(db, spec_id)
    assert held
    async with db.write() as session:
        spec = await specs.find_spec(session, spec_id)
        assert spec
        spec.state = source
    allowed = target is source or target in SPEC_MOVES[source]
    try:
        async with db.write() as session:
            await save_spec(session, spec_id, held.fence, {"state": target}, NOW)
    except Fenced:
        assert not allowed
    else:
        assert allowed


async def test_retry_is_for_ended_work_whose_issue_has_no_other_live_spec(db: Database) -> None:
    spec_id = await record(db)
    assert spec_id
    async with db.write() as session:
        assert await record_retry(session, spec_id, NOW), "it is live"
        spec = await specs.find_spec(session, spec_id)
        assert spec
        spec.state, spec.concluded_at = SpecState.FAILED, NOW
    other = await record(db, replace(NEW, trigger_key="other"))
    assert other
    async with db.write() as session:
        assert await record_retry(session, spec_id, NOW), "another is live"
        live = await specs.find_spec(session, other)
        assert live
        live.state = SpecState.CANCELLED
    async with db.write() as session:
        assert await record_retry(session, spec_id, NOW) is None
        again = await specs.find_spec(session, spec_id)
    assert again
    assert again.state in SPEC_LIVE


async def test_cancel_is_asked_once_and_the_first_reason_stays(db: Database) -> None:
    spec_id = await record(db)
    assert spec_id
    async with db.write() as session:
        assert await specs.record_cancel(session, spec_id, "label_removed", NOW)
        assert not await specs.record_cancel(session, spec_id, "issue_closed", NOW)
    async with db.read() as session:
        spec = await specs.find_spec(session, spec_id)
    assert spec
    assert spec.cancel_reason == "label_removed"


async def test_naive_times_are_refused(db: Database) -> None:
    with pytest.raises(Exception, match="naive time"):
        async with db.write() as session:
            await specs.record_spec(session, NEW, datetime(2026, 1, 1))  # noqa: DTZ001 - the point
