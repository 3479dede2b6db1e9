"""Recording deliveries: many in one statement, on both databases."""

from __future__ import annotations

import zlib

import pytest
from sqlalchemy import select, text

from app.db.deliveries import NewDelivery, record_deliveries
from app.db.engine import Database
from app.db.models import Delivery
from app.domain.ids import DeliveryId
from app.domain.states import DeliveryState
from tests.db.rows import T0, after

HEADERS = {"x-github-event": "issues", "user-agent": "Zähler \N{PARTY POPPER} '?' $1 %s :id"}


def delivery(number: int, body: bytes = b"{}") -> NewDelivery:
    return NewDelivery(DeliveryId(f"guid-{number}"), "issues", HEADERS, body, after(number / 1000))


@pytest.mark.parametrize("count", [1, 2, 64, 500])
async def test_group_of_any_size_then_every_row_is_as_it_was_given(db: Database, count: int) -> None:
    bodies = [b"\x00\xff'" + bytes([number % 256]) * number for number in range(count)]
    group = [delivery(number, body) for number, body in enumerate(bodies)]
    assert set(await record_deliveries(db, group)) == {one.id for one in group}
    async with db.read() as session:
        for one in (group[0], group[-1]):
            row = await session.get(Delivery, one.id)
            assert row is not None
            assert (row.event, row.headers, row.body) == ("issues", HEADERS, one.body)
            assert (row.received_at, row.state, row.attempts) == (one.received_at, DeliveryState.RECEIVED, 0)
            assert (row.intent, row.handled_at) == (None, None)


async def test_repeated_within_a_group_and_later_then_the_first_stays_and_new_ones_are_named(
    db: Database,
) -> None:
    first = [delivery(2), delivery(1, b"first"), delivery(1, b"second")]
    assert set(await record_deliveries(db, first)) == {"guid-2", "guid-1"}
    assert await record_deliveries(db, [delivery(1, b"third"), delivery(3)]) == ("guid-3",)
    assert await record_deliveries(db, [delivery(3)]) == ()
    async with db.read() as session:
        row = await session.get(Delivery, "guid-1")
    assert row is not None
    assert row.body == b"first"
    assert row.received_at > T0


async def test_nothing_to_record_then_nothing_is_asked(db: Database) -> None:
    assert await record_deliveries(db, []) == ()


async def test_body_is_stored_packed_and_those_of_earlier_releases_are_read_as_they_stand(
    db: Database,
) -> None:
    body = b'{"action": "labeled", "filler": "' + b"x" * 10_000 + b'"}'
    await record_deliveries(db, [delivery(1, body), delivery(2), delivery(3)])
    plain = b' {"action": "opened"}'
    async with db.write() as session:
        for old, row_id in ((plain, "guid-2"), (b"\x01" + zlib.compress(body), "guid-3")):
            await session.execute(
                text("UPDATE delivery SET body = :old WHERE id = :id"), {"old": old, "id": row_id}
            )
    async with db.read() as session:
        size = await session.scalar(text("SELECT length(body) FROM delivery WHERE id = 'guid-1'"))
        bodies = dict((await session.execute(select(Delivery.id, Delivery.body))).all())
    assert size is not None
    assert size < len(body) / 10
    assert bodies == {"guid-1": body, "guid-2": plain, "guid-3": body}
