"""What is asked often, or of tables that grow without end, is answered from an index, on both databases."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.archive import list_past_keeping, remove_archived
from app.db.credentials import find_stored
from app.db.deliveries import find_oldest_unhandled
from app.db.effects import list_due_effects
from app.db.engine import Database
from app.db.event_texts import list_texts
from app.db.events import EventFilter, NewEvent, list_events, list_stretch, record_events
from app.db.intake import list_waiting
from app.db.models import Sandbox
from app.db.operator_views import list_sandbox_rows, list_spec_rows
from app.db.specs import find_live_spec, find_newest_label_event, find_spec_of_trigger, list_due
from app.domain.credentials import CredentialKind
from app.domain.ids import SandboxId
from tests.db.rows import T0, add_sandbox, add_spec, after, get_sandbox

Ask = Callable[[AsyncSession, str], Awaitable[object]]


async def add_events(session: AsyncSession, sandbox_id: str) -> object:
    sandbox = await session.get_one(Sandbox, sandbox_id)
    new = [NewEvent(number, "agent.tool_use", {}, "agent", T0) for number in range(1, 4)]
    return await record_events(session, sandbox, new, T0)


def page(**wanted: Any) -> Ask:
    return lambda session, box: list_events(session, SandboxId(box), EventFilter(**wanted), 50)


ASKED: dict[str, tuple[Ask, frozenset[str]]] = {
    "a page of events": (page(after=1), frozenset()),
    "events of a type": (page(event_types=("agent.heartbeat",)), frozenset()),
    "events of a time": (page(since=T0, until=after(5)), frozenset()),
    "events stored": (add_events, frozenset()),
    "a stretch of a trajectory": (
        lambda session, box: list_stretch(session, SandboxId(box), 1, 50),
        frozenset(),
    ),
    "whole texts of a page": (lambda session, box: list_texts(session, box, [1, 2], 100), frozenset()),
    "what may be archived": (lambda session, _: list_past_keeping(session, T0, 20), frozenset()),
    "archived events removed": (
        lambda session, box: remove_archived(session, SandboxId(box), T0, 100),
        frozenset(),
    ),
    "the nearest credential": (
        lambda session, _: find_stored(session, CredentialKind.MODEL, 11, 1),
        frozenset(),
    ),
    "deliveries that wait": (lambda session, _: list_waiting(session, T0), frozenset()),
    "the oldest delivery": (lambda session, _: find_oldest_unhandled(session), frozenset()),
    "specs that are due": (lambda session, _: list_due(session, T0), frozenset()),
    "writes that are owed": (lambda session, _: list_due_effects(session, T0), frozenset()),
    "the live spec": (lambda session, _: find_live_spec(session, 7, 1), frozenset()),
    "the spec of a label": (lambda session, _: find_spec_of_trigger(session, 7, 1, "x"), frozenset()),
    "the newest label": (lambda session, _: find_newest_label_event(session, 7, 1), frozenset()),
    "specs listed": (lambda session, _: list_spec_rows(session, None, 50), frozenset({"repository"})),
    "sandboxes listed": (lambda session, _: list_sandbox_rows(session, None, 50), frozenset({"repository"})),
}
"""What is asked, and the small tables that may be read whole for it."""


@contextmanager
def heard(db: Database) -> Iterator[list[tuple[str, Any]]]:
    """Every statement that goes to the database meanwhile, with its parameters."""
    statements: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        if not statement.startswith(("BEGIN", "PRAGMA", "INSERT")):
            statements.append((statement, parameters))

    event.listen(db.engine.sync_engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(db.engine.sync_engine, "before_cursor_execute", note)


async def plan_of(db: Database, statement: str, parameters: Any) -> list[str]:
    """The lines of the plan in which a whole table is read."""
    explain = "EXPLAIN QUERY PLAN " if db.dialect == "sqlite" else "EXPLAIN "
    async with db.read() as session:
        connection = await session.connection()
        if db.dialect == "postgresql":
            # Of three rows any plan would do; what counts is whether there is another one.
            await session.execute(text("SET LOCAL enable_seqscan = off"))
        rows = (await connection.exec_driver_sql(explain + statement, parameters)).all()
    lines = [str(row[-1]) for row in rows]
    if db.dialect == "sqlite":
        return [line for line in lines if line.startswith("SCAN") and "USING" not in line]
    return [line for line in lines if "Seq Scan" in line]


@pytest.mark.parametrize("what", ASKED)
async def test_question_is_answered_from_an_index(db: Database, what: str) -> None:
    ask, small = ASKED[what]
    sandbox_id = await add_sandbox(db, await add_spec(db))
    await get_sandbox(db, sandbox_id)
    with heard(db) as statements:
        async with db.write() as session:
            await ask(session, sandbox_id)
    assert statements
    for statement, parameters in statements:
        whole = await plan_of(db, statement, parameters)
        assert [line for line in whole if not any(name in line for name in small)] == [], statement
