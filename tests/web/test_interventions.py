"""What was done about an agent stands among what it reported, once, on whichever page that place is."""

import asyncio
import uuid

import pytest

from app.db.models import Intervention
from tests.web.conftest import OPERATOR, T0, add_sandbox, bearer, event


@pytest.fixture
async def http(world):
    async with world.http(**OPERATOR) as client:
        yield client


async def add(world, sandbox_id, spec_id, at_seq, event_type):
    fields = {"rule": "command", "text": "Try something else.", "created_at": T0, "task_id": None}
    row = Intervention(
        id=uuid.uuid4(), sandbox_id=sandbox_id, spec_id=spec_id, at_seq=at_seq, event_type=event_type, **fields
    )  # fmt: skip
    async with world.database.write() as session:
        session.add(row)


async def report(world, sandbox, *events):
    async with world.http(**bearer(sandbox[1])) as client:
        answer = await client.post(f"/api/v1/sandboxes/{sandbox[0]}/events", json={"events": events})
    assert answer.status_code == 200


async def made(world, http):
    """Ten events, the last four of them heartbeats; a reminder before the fourth, a pause at the end."""
    sandbox_id, _ = sandbox = await add_sandbox(world)
    names = ["tool_use"] * 6 + ["heartbeat"] * 4
    await report(world, sandbox, *[event(n, f"agent.{name}") for n, name in enumerate(names, 1)])
    spec_id = (await http.get(f"/api/v1/sandboxes/{sandbox_id}")).json()["spec_id"]
    await add(world, sandbox_id, spec_id, 4, "guardian.nudged")
    await add(world, sandbox_id, spec_id, 11, "guardian.paused")
    return f"/api/v1/sandboxes/{sandbox_id}"


async def shown(http, path, **params):
    """Numbers of all pages, those of interventions negative; the sizes of the pages."""
    numbers, cursor = [], None
    while True:
        page = (await http.get(path, params={**params, **({"cursor": cursor} if cursor else {})})).json()
        for item in page["items"]:
            number = item.get("seq", 0)
            numbers.append(-number if item.get("source") == "system" else number)
        cursor = page["next_cursor"]
        if cursor is None:
            return numbers


async def test_events_in_pages_of_any_size_then_each_intervention_once_in_its_place(world, http):
    path = await made(world, http)
    for limit in range(1, 12):
        numbers = await shown(http, f"{path}/events", limit=limit)
        assert numbers == [1, 2, 3, -4, 4, 5, 6, 7, 8, 9, 10, -11], limit


async def test_trajectory_in_pages_of_any_size_then_each_intervention_once_in_its_place(world, http):
    path = await made(world, http)
    for limit in range(1, 9):
        numbers = await shown(http, f"{path}/trajectory", limit=limit)
        assert numbers == [1, 2, 3, -4, 4, 5, 6, 0, -11], limit


async def test_events_of_some_types_then_only_what_is_of_them(world, http):
    path = await made(world, http)
    assert await shown(http, f"{path}/events", event_type=["guardian.paused"]) == [-11]
    assert await shown(http, f"{path}/events", event_type=["agent.tool_use"]) == [1, 2, 3, 4, 5, 6]


async def followed(http, path, cursor, **params):
    """Numbers of one page that is waited for, those of interventions negative; where it leads on to."""
    page = (await http.get(path, params={"wait": 20, "cursor": cursor, **params})).json()
    found = [-one["seq"] if one["source"] == "system" else one["seq"] for one in page["items"]]
    return found, page["next_cursor"]


async def test_waiting_for_events_then_an_intervention_is_shown_at_once_and_never_again(world, http):
    sandbox_id, _ = sandbox = await add_sandbox(world)
    path = f"/api/v1/sandboxes/{sandbox_id}/events"
    spec_id = (await http.get(f"/api/v1/sandboxes/{sandbox_id}")).json()["spec_id"]
    await report(world, sandbox, event(1))
    waiting = asyncio.create_task(followed(http, path, "1"))
    await asyncio.sleep(0)
    await add(world, sandbox_id, spec_id, 2, "guardian.nudged")
    shown, cursor = await waiting
    assert shown == [-2], "nothing was reported after it"
    waiting = asyncio.create_task(followed(http, path, cursor))
    await asyncio.sleep(0)
    await add(world, sandbox_id, spec_id, 2, "guardian.paused")
    shown, cursor = await waiting
    assert shown == [-2], "another one at the same place"
    await report(world, sandbox, event(2), event(3))
    assert await followed(http, path, cursor) == ([2, 3], "3")
    assert await followed(http, path, 0) == ([1, -2, -2, 2, 3], "3")


async def test_waiting_for_some_types_then_no_event_is_lost_behind_an_intervention(world, http):
    sandbox_id, _ = sandbox = await add_sandbox(world)
    path = f"/api/v1/sandboxes/{sandbox_id}/events"
    spec_id = (await http.get(f"/api/v1/sandboxes/{sandbox_id}")).json()["spec_id"]
    kinds = {"event_type": ["agent.tool_use", "guardian.nudged"]}
    names = ["tool_use", "message"] * 2
    await report(world, sandbox, *[event(n, f"agent.{name}") for n, name in enumerate(names, 1)])
    await add(world, sandbox_id, spec_id, 4, "guardian.paused")
    await add(world, sandbox_id, spec_id, 5, "guardian.nudged")
    assert await followed(http, path, 0, limit=1, **kinds) == ([1], "1")
    shown, cursor = await followed(http, path, "1", **kinds)
    assert shown == [3, -5]
    await report(world, sandbox, event(5, "agent.tool_use"))
    assert (await followed(http, path, cursor, **kinds))[0] == [5]


async def test_sandbox_is_shown_with_what_was_done_about_its_agent(world, http):
    path = await made(world, http)
    assert (await http.get(path)).json()["interventions"] == [
        f"{T0:%Y-%m-%d %H:%M:%S} guardian.nudged command",
        f"{T0:%Y-%m-%d %H:%M:%S} guardian.paused command",
    ]
