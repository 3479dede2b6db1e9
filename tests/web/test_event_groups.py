"""What many sandboxes report at the same moment shares transactions, and each is answered for itself."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from sqlalchemy import update

from app.db.models import Sandbox
from app.domain.states import SandboxState
from app.queue.jobs import JobName
from tests.web.conftest import World, add_sandbox, bearer, event, get_row

MANY = 40


async def report(world: World, box: tuple[str, str], *events: dict[str, Any]) -> tuple[int, int | None]:
    """Status and what is acknowledged."""
    async with world.http(**bearer(box[1])) as http:
        body = json.dumps({"events": list(events)}).encode()
        answer = await http.post(f"/api/v1/sandboxes/{box[0]}/events", content=body)
    return answer.status_code, answer.json().get("last_seq")


async def test_many_report_at_once_then_each_hears_what_is_stored_of_its_own(world: World) -> None:
    boxes = [await add_sandbox(world, number) for number in range(1, MANY + 1)]
    heard = await asyncio.gather(
        *(report(world, box, *(event(seq) for seq in range(1, 2 + at % 3))) for at, box in enumerate(boxes))
    )
    assert heard == [(200, 1 + at % 3) for at in range(MANY)]
    again = await asyncio.gather(*(report(world, box, event(1), event(6)) for box in boxes))
    assert again == heard, "repeated, and beyond a gap"
    closed = await asyncio.gather(*(report(world, box, *map(event, range(2, 6))) for box in boxes))
    assert closed == [(200, 6)] * MANY


async def test_one_of_many_has_ended_since_its_token_was_seen_then_403_for_it_alone(world: World) -> None:
    boxes = [await add_sandbox(world, number) for number in range(1, 6)]
    assert [await report(world, box, event(1)) for box in boxes] == [(200, 1)] * 5
    async with world.database.write() as session:
        ended = update(Sandbox).where(Sandbox.id == boxes[2][0]).values(state=SandboxState.COMPLETED)
        await session.execute(ended)
    heard = await asyncio.gather(*(report(world, box, event(2)) for box in boxes))
    assert heard == [(200, 2), (200, 2), (403, None), (200, 2), (200, 2)]
    assert (await get_row(world, Sandbox, boxes[2][0])).last_seq == 1


async def test_one_sandboxs_requests_at_once_then_all_are_stored_and_weighty_ones_ring(world: World) -> None:
    box, other = await add_sandbox(world, 1), await add_sandbox(world, 2)
    await asyncio.gather(
        *(report(world, box, event(seq)) for seq in range(1, 20)),
        report(world, box, event(20, "agent.error")),
        report(world, other, event(1, "agent.started", session_id="s-1")),
    )
    assert (await get_row(world, Sandbox, box[0])).last_seq == 20
    assert (await get_row(world, Sandbox, other[0])).session_id == "s-1"
    await world.settled()
    assert [ring[0] for ring in world.doorbell.rings] == [JobName.ADVANCE] * 2
