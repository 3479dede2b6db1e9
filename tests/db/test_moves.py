"""The tables of moves are the contract's, and the database allows exactly those."""

from __future__ import annotations

from enum import StrEnum

import pytest

from app.db.engine import Database
from app.db.sandboxes import move_sandbox
from app.db.specs import claim_spec, save_spec
from app.db.tasks import move_task
from app.domain.errors import Fenced
from app.domain.states import (
    SANDBOX_MOVES,
    SPEC_LIVE,
    SPEC_MOVES,
    TASK_MOVES,
    SandboxState as Box,
    SpecState as Spec,
    TaskState as Task,
)
from tests.db.rows import T0, add_sandbox, add_spec, get_sandbox, get_spec, get_task, set_spec

SPEC_CONTRACT = {
    ("queued", "planning"), ("queued", "implementing"), ("planning", "awaiting_approval"), ("planning", "implementing"),
    ("awaiting_approval", "planning"), ("awaiting_approval", "implementing"), ("implementing", "in_review"),
    ("implementing", "completed"), ("in_review", "implementing"), ("in_review", "completed"), ("failed", "queued"),
    ("cancelled", "queued"),
}  # fmt: skip
LIVE = ("queued", "planning", "awaiting_approval", "implementing", "in_review")
SPEC_CONTRACT |= {(one, "paused") for one in LIVE} | {("paused", one) for one in LIVE}
SPEC_CONTRACT |= {(one, end) for one in (*LIVE, "paused") for end in ("failed", "cancelled")}

TASK_CONTRACT = {
    ("pending", "assigned"), ("assigned", "running"), ("running", "completed"), ("running", "failed"),
    ("pending", "cancelled"), ("assigned", "cancelled"), ("running", "cancelled"), ("assigned", "pending"),
    ("failed", "pending"),
}  # fmt: skip

SANDBOX_CONTRACT = {
    ("PENDING", "CREATING"), ("CREATING", "RUNNING"), ("RUNNING", "COMPLETING"), ("COMPLETING", "COMPLETED"),
    ("CREATING", "FAILED"), ("RUNNING", "FAILED"), ("COMPLETING", "FAILED"), ("PENDING", "COMPLETED"),
    ("CREATING", "COMPLETED"), ("RUNNING", "COMPLETED"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("moves", "contract"),
    [(SPEC_MOVES, SPEC_CONTRACT), (TASK_MOVES, TASK_CONTRACT), (SANDBOX_MOVES, SANDBOX_CONTRACT)],
    ids=["spec", "task", "sandbox"],
)
def test_tables_of_moves_are_the_contracts(
    moves: dict[StrEnum, frozenset[StrEnum]], contract: set[tuple[str, str]]
) -> None:
    assert {(str(one), str(other)) for one, targets in moves.items() for other in targets} == contract


def expected(contract: set[tuple[str, str]], source: StrEnum, target: StrEnum) -> bool:
    return source == target or (source.value, target.value) in contract


async def test_spec_moves_as_the_contract_says_and_not_otherwise(db: Database) -> None:
    spec_id = await add_spec(db)
    async with db.write() as session:
        claim = await claim_spec(session, spec_id, "w1", T0)
    assert claim is not None
    for source in Spec:
        for target in Spec:
            await set_spec(db, spec_id, state=source)
            try:
                async with db.write() as session:
                    await save_spec(session, spec_id, claim.fence, {"state": target}, T0)
                moved = True
            except Fenced:
                moved = False
            assert moved == expected(SPEC_CONTRACT, source, target), (source, target)
            assert (await get_spec(db, spec_id)).state is (target if moved else source)


async def test_task_moves_as_the_contract_says_and_not_otherwise(db: Database) -> None:
    for number, source in enumerate(Task):
        for target in Task:
            issue = number * 10 + list(Task).index(target) + 1
            spec_id = await add_spec(db, issue_number=issue)
            task = await get_task(db, spec_id)
            await force(db, task, source)
            try:
                async with db.write() as session:
                    await move_task(session, task.id, target, T0)
                moved = True
            except Fenced:
                moved = False
            assert moved == expected(TASK_CONTRACT, source, target), (source, target)
            assert (await get_task(db, spec_id)).state is (target if moved else source)


async def force(db: Database, row: object, state: StrEnum) -> None:
    async with db.write() as session:
        merged = await session.merge(row)
        merged.state = state  # type: ignore[attr-defined]


async def test_sandbox_moves_as_the_contract_says_and_an_end_has_its_time(db: Database) -> None:
    spec_id = await add_spec(db)
    sandbox_id = await add_sandbox(db, spec_id)
    for source in Box:
        for target in Box:
            row = await get_sandbox(db, sandbox_id)
            row.ended_at = None
            await force(db, row, source)
            try:
                async with db.write() as session:
                    await move_sandbox(session, sandbox_id, target, T0)
                moved = True
            except Fenced:
                moved = False
            assert moved == expected(SANDBOX_CONTRACT, source, target), (source, target)
            found = await get_sandbox(db, sandbox_id)
            assert found.state is (target if moved else source)
            assert (found.ended_at is not None) == (moved and target in {Box.COMPLETED, Box.FAILED})


def test_live_states_are_those_that_are_no_end() -> None:
    assert {one.value for one in SPEC_LIVE} == {*LIVE, "paused"}
