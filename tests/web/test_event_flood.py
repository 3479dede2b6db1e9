"""Long texts and too many events: what is kept, and what the sandbox is told."""

from __future__ import annotations

from sqlalchemy import select

from app.db.models import Event, EventText, Sandbox
from app.domain.event_fields import MAX_FIELD
from app.web.ports import Limits
from tests.web.conftest import OPERATOR, add_sandbox, bearer, create_tables, event, get_row


async def send(world, sandbox, *events) -> int:
    async with world.http(**bearer(sandbox[1])) as http:
        answer = await http.post(f"/api/v1/sandboxes/{sandbox[0]}/events", json={"events": list(events)})
    assert answer.status_code == 200, answer.text
    return int(answer.json()["last_seq"])


async def stored(world, sandbox) -> list[tuple[int, str]]:
    async with world.database.read() as session:
        rows = await session.scalars(select(Event).where(Event.sandbox_id == sandbox[0]).order_by(Event.seq))
        return [(row.seq, row.event_type) for row in rows]


async def flooded(make_world):
    world = make_world(Limits(events_per_sandbox=3))
    await create_tables(world)
    return world, await add_sandbox(world)


async def test_too_many_events_then_the_important_ones_are_kept_and_it_is_said_once(make_world, log_output):
    world, sandbox = await flooded(make_world)
    types = ["agent.started", *["agent.tool_use"] * 5, "agent.heartbeat", "agent.message", "agent.completed"]
    events = [event(seq, kind) for seq, kind in enumerate(types, 1)]
    assert await send(world, sandbox, *events[:5]) == 5
    assert await send(world, sandbox, *events[5:]) == 9
    assert await send(world, sandbox, *events) == 9, "a repeated one is a no-op"
    assert await stored(world, sandbox) == [
        (1, "agent.started"), (2, "agent.tool_use"), (3, "agent.tool_use"), (4, "sandbox.events_dropped"),
        (7, "agent.heartbeat"), (9, "agent.completed"),
    ]  # fmt: skip
    row = await get_row(world, Sandbox, sandbox[0])
    assert (row.events_passed_over, row.last_seq) == (4, 9)
    assert row.tools == 4, "all but the one whose place the note took"
    assert log_output.getvalue().count("sandbox.flooded") == 1


async def test_events_passed_over_before_a_gap_is_filled_are_acknowledged_when_they_come_again(make_world):
    world, sandbox = await flooded(make_world)
    late = [event(seq) for seq in (5, 6, 8)]
    assert await send(world, sandbox, event(1), event(2), event(3), *late) == 3
    assert await send(world, sandbox, event(4)) == 5
    assert await send(world, sandbox, *late) == 6
    assert await send(world, sandbox, event(7, "agent.waiting"), event(8)) == 8


async def test_number_far_ahead_then_nothing_of_it_is_stored_but_the_note(make_world):
    world, sandbox = await flooded(make_world)
    assert await send(world, sandbox, event(1), *(event(2**53 - at) for at in range(50))) == 1
    assert len(await stored(world, sandbox)) == 2


async def test_long_diff_then_cut_in_lists_and_whole_when_asked_for(world):
    sandbox = await add_sandbox(world)
    diff = "+" + "é" * 50_000
    await send(world, sandbox, event(1, "agent.file_edited", file_path="a", full_diff=diff))
    await send(world, sandbox, event(1, "agent.file_edited", file_path="a", full_diff=diff))
    await send(world, sandbox, event(2, "agent.tool_completed", output=diff))
    path = f"/api/v1/sandboxes/{sandbox[0]}/events"
    async with world.http(**OPERATOR) as http:
        short = (await http.get(path)).json()["items"]
        full = (await http.get(path, params={"full": "true"})).json()["items"]
    assert len(short[0]["event_data"]["full_diff"]) < MAX_FIELD + 50
    assert full[0]["event_data"] == {"file_path": "a", "full_diff": diff}
    assert len(full[1]["event_data"]["output"]) < MAX_FIELD + 50
    async with world.database.read() as session:
        (row,) = await session.scalars(select(EventText))
    assert len(row.data) < 1_000


async def test_heartbeats_without_end_then_each_page_of_the_trajectory_folds_a_part(world):
    sandbox = await add_sandbox(world)
    for first in (1, 1001, 2001):
        await send(world, sandbox, *(event(seq, "agent.heartbeat") for seq in range(first, first + 1000)))
    await send(world, sandbox, event(3001, "agent.completed"))
    path, cursor, items = f"/api/v1/sandboxes/{sandbox[0]}/trajectory", None, []
    async with world.http(**OPERATOR) as http:
        for _ in range(5):
            page = (await http.get(path, params={"cursor": cursor} if cursor else {})).json()
            items += page["items"]
            cursor = page["next_cursor"]
            if cursor is None:
                break
    assert sum(item.get("count", 0) for item in items) == 3000
    assert items[-1]["event_type"] == "agent.completed"
    assert cursor is None
