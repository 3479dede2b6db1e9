"""Events and messages, as a sandbox sees them."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from datetime import timedelta

import httpx
import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st
from sqlalchemy import func, select

from app.db.messages import NewMessage, record_message
from app.db.models import Effect, Event, Message, Sandbox, Spec
from app.domain.states import MessageState, SandboxState
from app.queue.jobs import JobName
from app.web.ports import Limits
from tests.web.conftest import OPERATOR, add_sandbox, bearer, create_tables, event, get_row, served, until


async def send(world, sandbox, body, **more):
    sandbox_id, token = sandbox
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with world.http(**bearer(token)) as http:
        return await http.post(f"/api/v1/sandboxes/{sandbox_id}/events", content=content, **more)


async def count_events(world) -> int:
    async with world.database.read() as session:
        return await session.scalar(select(func.count()).select_from(Event)) or 0


async def queue(world, sandbox_id, content="hello", message_type="user_message") -> uuid.UUID:
    async with world.database.write() as session:
        row = await record_message(session, sandbox_id, NewMessage(message_type, content), world.clock())
        return row.id


# ------------------------------------------------------------ who may


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "events"),
        ("GET", "messages"),
        ("POST", f"messages/{uuid.UUID(int=1)}/ack"),
        ("PUT", "artifacts/manifest.json"),
    ],
)
async def test_token_missing_unknown_foreign_or_ended_then_401_401_403_403(world, method, path):
    mine, _ = await add_sandbox(world, 1)
    _, foreign = await add_sandbox(world, 2)
    ended, ended_token = await add_sandbox(world, 3, state=SandboxState.COMPLETED)
    async with world.http() as http:
        cases = [
            (mine, {}, 401),
            (mine, {"Authorization": "Basic abc"}, 401),
            (mine, bearer("unknown"), 401),
            (mine, {"Authorization": b"Bearer \xff\xfe"}, 401),
            (mine, OPERATOR, 401),
            (mine, bearer(foreign), 403),
            ("sbx_nothing", bearer(foreign), 403),
            ("sbx_nothing", bearer("unknown"), 401),
            ("x%00y", bearer(foreign), 403),
            (ended, bearer(ended_token), 403),
        ]
        for sandbox_id, headers, expected in cases:
            answer = await http.request(method, f"/api/v1/sandboxes/{sandbox_id}/{path}", headers=headers)
            assert answer.status_code == expected, (sandbox_id, headers)
            assert answer.headers["content-type"] == "application/problem+json"


# ------------------------------------------------------------ events


async def test_batch_then_stored_and_acknowledged_up_to_the_first_gap(world):
    sandbox = await add_sandbox(world)
    answer = await send(world, sandbox, {"events": [event(1), event(2), event(4)]})
    assert (answer.status_code, answer.json()) == (200, {"status": "received", "last_seq": 2})
    answer = await send(world, sandbox, event(3))
    assert answer.json()["last_seq"] == 4
    assert await count_events(world) == 4


async def test_events_out_of_order_doubled_and_far_ahead_then_the_contiguous_number_is_right(world):
    sandbox = await add_sandbox(world)
    assert (await send(world, sandbox, {"events": [event(5), event(3), event(3)]})).json()["last_seq"] == 0
    assert (await send(world, sandbox, {"events": [event(2), event(1)]})).json()["last_seq"] == 3
    assert (await send(world, sandbox, {"events": [event(n) for n in range(1, 900)]})).json()[
        "last_seq"
    ] == 899
    assert await count_events(world) == 899


async def test_gap_that_is_filled_in_part_then_it_is_known_since_when_until_it_is_closed(world):
    sandbox = await add_sandbox(world)
    await send(world, sandbox, event(6))
    since = (await get_row(world, Sandbox, sandbox[0])).gap_since_at
    assert since is not None
    world.clock.now += timedelta(seconds=5)
    for seqs, last_seq, open_since in (((1, 2), 2, since), ((4,), 2, since), ((3, 5), 6, None)):
        answer = await send(world, sandbox, {"events": [event(seq) for seq in seqs]})
        assert answer.json()["last_seq"] == last_seq
        assert (await get_row(world, Sandbox, sandbox[0])).gap_since_at == open_since


async def test_any_order_any_repetition_then_the_number_is_always_that_before_the_first_gap(world):
    chance = random.Random(11)
    sandbox = await add_sandbox(world)
    known: set[int] = set()
    for _ in range(60):
        seqs = [chance.randint(1, 40) for _ in range(chance.randint(1, 4))]
        known.update(seqs)
        answer = await send(world, sandbox, {"events": [event(seq) for seq in seqs]})
        assert answer.json()["last_seq"] == next(seq for seq in range(42) if seq + 1 not in known)
        gap = (await get_row(world, Sandbox, sandbox[0])).gap_since_at
        assert (gap is not None) == (max(known) > answer.json()["last_seq"])


async def test_repeated_number_with_other_content_then_the_first_stays(world):
    sandbox = await add_sandbox(world)
    await send(world, sandbox, event(1, "agent.message", text="first"))
    answer = await send(world, sandbox, event(1, "agent.failed", text="second"))
    assert answer.json()["last_seq"] == 1
    row = await get_row(world, Event, (sandbox[0], 1))
    assert (row.event_type, row.event_data) == ("agent.message", {"text": "first"})
    await world.settled()
    assert world.doorbell.rings == []


async def test_one_bad_event_then_422_and_none_of_the_batch_is_stored(world):
    sandbox = await add_sandbox(world)
    for bad in (
        {**event(2), "seq": 0},
        {**event(2), "seq": -1},
        {**event(2), "seq": 2**60},
        {**event(2), "source": "system"},
        {**event(2), "timestamp": "2026-03-01T12:00:00"},
        {**event(2), "timestamp": "yesterday"},
        {**event(2), "event_type": ""},
        {**event(2), "event_type": "x" * 101},
        {**event(2), "event_data": []},
        {"seq": 2},
        17,
        None,
    ):
        answer = await send(world, sandbox, {"events": [event(1), bad]})
        assert answer.status_code == 422, bad
        assert answer.headers["content-type"] == "application/problem+json"
    assert await count_events(world) == 0


async def test_body_not_events_then_422(world):
    sandbox = await add_sandbox(world)
    for body in [b"", b"[]", b"null", b"{", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000, b"9" * 9000]:
        assert (await send(world, sandbox, body)).status_code == 422


async def test_unknown_type_and_unknown_fields_then_stored(world):
    sandbox = await add_sandbox(world)
    assert (await send(world, sandbox, {**event(1, "agent.dreamt"), "mood": "good"})).status_code == 200
    assert (await get_row(world, Event, (sandbox[0], 1))).event_type == "agent.dreamt"


async def test_text_the_database_cannot_hold_then_replaced_not_refused(world):
    sandbox = await add_sandbox(world)
    body = (
        b'{"seq": 1, "event_type": "agent.message", "timestamp": "2026-03-01T12:00:00Z",'
        b'"event_data": {"nul\\u0000": "a\\u0000b", "half": "\\ud800", "bytes": "\xff", "n": NaN, "huge": 1e999,'
        b'"deep": ' + b"[" * 400 + b"]" * 400 + b"}}"
    )
    assert (await send(world, sandbox, body)).status_code == 200
    data = (await get_row(world, Event, (sandbox[0], 1))).event_data
    assert data["nul\N{REPLACEMENT CHARACTER}"] == "a\N{REPLACEMENT CHARACTER}b"
    assert data["half"] == data["bytes"] == "\N{REPLACEMENT CHARACTER}"
    assert data["n"] is None
    assert data["huge"] is None
    assert "\x00" not in json.dumps(data)


async def test_time_far_off_then_time_of_arrival(world):
    sandbox = await add_sandbox(world)
    odd = {
        "events": [
            {**event(1), "timestamp": "0001-01-01T00:00:00+14:00"},
            {**event(2), "timestamp": "9999-12-31T23:59:59-14:00"},
        ]
    }
    assert (await send(world, sandbox, odd)).status_code == 200
    assert (await get_row(world, Event, (sandbox[0], 1))).timestamp == world.clock.now


@hypothesis_settings(max_examples=60)
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["events", "seq", "event_type", "event_data", "source", "timestamp", "\x00"]),
                inner,
            )
        ),
        max_leaves=12,
    )
)
async def test_any_json_then_200_or_422(world, value):
    async with world.database.read() as session:
        known = await session.get(Sandbox, "sbx_00000000000000000001")
    sandbox = ("sbx_00000000000000000001", "token-of-1") if known else await add_sandbox(world)
    assert (await send(world, sandbox, json.dumps(value).encode())).status_code in (200, 422)


async def test_body_over_one_megabyte_then_413(world):
    assert (await send(world, await add_sandbox(world), b" " * 1_000_001)).status_code == 413


async def test_event_of_weight_then_spec_version_grows_and_the_engine_is_rung(world):
    sandbox_id, _ = sandbox = await add_sandbox(world)
    for number, name in enumerate(("started", "waiting", "completed", "failed", "shutdown", "error"), 1):
        await send(world, sandbox, event(number, f"agent.{name}"))
    spec = await get_row(world, Spec, (await get_row(world, Sandbox, sandbox_id)).spec_id)
    assert spec.version == 7
    await world.settled()
    assert world.doorbell.rings == [(JobName.ADVANCE, spec.id, version) for version in range(2, 8)]


async def test_small_events_then_only_the_counters_move(world):
    sandbox_id, _ = sandbox = await add_sandbox(world)
    await send(world, sandbox, event(1, "agent.heartbeat", turns=3))
    row = await get_row(world, Sandbox, sandbox_id)
    assert (row.last_heartbeat_at, row.last_work_at, row.turns, row.activity) == (
        world.clock.now,
        None,
        3,
        None,
    )
    await send(world, sandbox, {"events": [event(2, tool_name="Bash", turn=4), event(3, tool_name="Read")]})
    row = await get_row(world, Sandbox, sandbox_id)
    assert (row.tools, row.last_tool, row.turns, row.activity) == (2, "Read", 4, "working")
    assert row.last_work_at == world.clock.now
    await send(world, sandbox, event(4, "agent.waiting", turns=10**12))
    row = await get_row(world, Sandbox, sandbox_id)
    assert (row.activity, row.turns, row.state) == ("waiting", 4, SandboxState.RUNNING)


async def test_too_many_events_then_429_for_that_sandbox_alone(make_world):
    world = make_world(Limits(events_per_s=1, events_burst=5))
    await create_tables(world)
    mine, other = await add_sandbox(world, 1), await add_sandbox(world, 2)
    assert (await send(world, mine, {"events": [event(n) for n in range(1, 9)]})).status_code == 200
    answer = await send(world, mine, event(9))
    assert answer.status_code == 429
    assert int(answer.headers["retry-after"]) >= 1
    assert (await send(world, other, event(1))).status_code == 200


async def test_storage_away_then_503(make_world):
    world = make_world()
    assert (await send(world, ("sbx_1", "t"), event(1))).status_code == 503


# ------------------------------------------------------------ messages


async def get(world, sandbox, **params):
    sandbox_id, token = sandbox
    async with world.http(**bearer(token)) as http:
        return await http.get(f"/api/v1/sandboxes/{sandbox_id}/messages", params=params)


async def test_messages_read_then_sent_and_readable_again(world):
    sandbox_id, _ = sandbox = await add_sandbox(world)
    first, second = await queue(world, sandbox_id, "one"), await queue(world, sandbox_id, "two", "interrupt")
    page = (await get(world, sandbox)).json()
    assert [(m["id"], m["seq"], m["message_type"], m["content"]) for m in page["messages"]] == [
        (str(first), 1, "user_message", "one"),
        (str(second), 2, "interrupt", "two"),
    ]
    assert page["last_seq"] == 2
    assert (await get_row(world, Message, first)).state is MessageState.SENT
    assert (await get(world, sandbox)).json() == page
    assert (await get(world, sandbox, after=1)).json()["messages"] == page["messages"][1:]
    assert (await get(world, sandbox, after=2)).json() == {"messages": [], "last_seq": 2}


async def test_cancelled_message_then_never_shown_and_the_cursor_passes_it(world):
    sandbox_id, _ = sandbox = await add_sandbox(world)
    gone = await queue(world, sandbox_id)
    async with world.database.write() as session:
        (await session.get(Message, gone)).state = MessageState.CANCELLED
    assert (await get(world, sandbox)).json() == {"messages": [], "last_seq": 1}


async def test_wrong_parameter_then_422(world):
    sandbox = await add_sandbox(world)
    for params in [{"after": "x"}, {"after": -1}, {"wait": 26}, {"wait": -1}, {"wait": "nan"}]:
        answer = await get(world, sandbox, **params)
        assert answer.status_code == 422, params
        assert answer.json()["errors"]


async def test_waiting_poll_then_answered_when_a_message_comes(world):
    sandbox_id, _ = sandbox = await add_sandbox(world)
    poll = asyncio.create_task(get(world, sandbox, wait=20))
    await until(lambda: world.bell._woken.get(sandbox_id))
    async with world.http(**OPERATOR) as http:
        answer = await http.post(f"/api/v1/sandboxes/{sandbox_id}/messages", json={"content": "hi"})
    assert answer.status_code == 201
    async with asyncio.timeout(0.9):
        assert [m["content"] for m in (await poll).json()["messages"]] == ["hi"]


async def test_bell_away_then_the_poll_looks_at_the_database_and_does_not_spin(make_world):
    world = make_world(Limits(look_every_s=0.1))
    await create_tables(world)
    sandbox_id, _ = sandbox = await add_sandbox(world)
    world.bell.away = True
    looks = 0
    look = world.database.look

    def counted():
        nonlocal looks
        looks += 1
        return look()

    world.database.look = counted
    poll = asyncio.create_task(get(world, sandbox, wait=20))
    await until(lambda: looks >= 3)
    await queue(world, sandbox_id)
    assert (await poll).json()["messages"]
    assert looks < 15


async def test_poll_of_a_sandbox_that_ends_then_403(make_world):
    world = make_world(Limits(look_every_s=0.05))
    await create_tables(world)
    sandbox_id, _ = sandbox = await add_sandbox(world)
    poll = asyncio.create_task(get(world, sandbox, wait=20))
    await until(lambda: world.bell._woken.get(sandbox_id))
    async with world.database.write() as session:
        (await session.get(Sandbox, sandbox_id)).state = SandboxState.COMPLETED
    assert (await poll).status_code == 403


async def test_process_stops_then_waiting_polls_answer_at_once(world):
    sandbox_id, _ = sandbox = await add_sandbox(world)
    poll = asyncio.create_task(get(world, sandbox, wait=20))
    await until(lambda: world.bell._woken.get(sandbox_id))
    world.parts.closing.set()
    async with asyncio.timeout(0.5):
        assert (await poll).status_code == 200


async def test_too_many_polls_then_429_and_room_again_when_clients_leave(make_world):
    world = make_world(Limits(polls_per_sandbox=2, look_every_s=0.05))
    await create_tables(world)
    sandbox_id, token = await add_sandbox(world)
    async with served(world.app) as url:
        path = f"{url}/api/v1/sandboxes/{sandbox_id}/messages"
        async with httpx.AsyncClient(headers=bearer(token)) as http:
            polls = [asyncio.create_task(http.get(path, params={"wait": 20})) for _ in range(2)]
            await until(lambda: len(world.parts.polls._taken) and world.parts.polls._taken[sandbox_id] == 2)
            assert (await http.get(path)).status_code == 429
            for poll in polls:
                poll.cancel()
            await asyncio.gather(*polls, return_exceptions=True)
            await until(lambda: not world.parts.polls._taken)
            assert (await http.get(path)).status_code == 200


async def test_acknowledge_then_once_and_again_the_same(world):
    sandbox = await add_sandbox(world)
    other = await add_sandbox(world, 2)
    message_id = await queue(world, sandbox[0])

    async def ack(of, wanted):
        async with world.http(**bearer(of[1])) as http:
            return await http.post(f"/api/v1/sandboxes/{of[0]}/messages/{wanted}/ack")

    assert (await ack(sandbox, message_id)).status_code == 409
    await get(world, sandbox)
    assert (await ack(other, message_id)).status_code == 404
    assert (await ack(sandbox, uuid.uuid4())).status_code == 404
    assert (await ack(sandbox, "no-uuid")).status_code == 422
    for _ in range(2):
        answer = await ack(sandbox, message_id)
        assert (answer.status_code, answer.json()) == (200, {"id": str(message_id), "state": "acknowledged"})
    assert (await get_row(world, Message, message_id)).acknowledged_at == world.clock.now


async def test_acknowledged_comment_then_one_reaction_is_owed_for_it(world):
    sandbox = await add_sandbox(world)
    async with world.database.write() as session:
        said = NewMessage("user_message", "hello", author_id=11, comment_id=77)
        row = await record_message(session, sandbox[0], said, world.clock())
    await get(world, sandbox)
    for _ in range(2):
        async with world.http(**bearer(sandbox[1])) as http:
            answer = await http.post(f"/api/v1/sandboxes/{sandbox[0]}/messages/{row.id}/ack")
        assert answer.status_code == 200
    async with world.database.read() as session:
        owed = (await session.scalars(select(Effect))).all()
    assert [(one.kind, one.payload) for one in owed] == [
        ("reaction", {"comment_id": 77, "content": "rocket"})
    ]


async def test_concurrent_messages_then_numbers_without_gaps(world):
    sandbox_id, _ = sandbox = await add_sandbox(world)
    await asyncio.gather(*(queue(world, sandbox_id, str(n)) for n in range(10)))
    page = (await get(world, sandbox)).json()
    assert [m["seq"] for m in page["messages"]] == list(range(1, 11))
