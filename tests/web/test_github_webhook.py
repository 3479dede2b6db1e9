"""The receiver, through HTTP: what is stored, what is refused, in which order."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json

import pytest
from hypothesis import given, settings as hypothesis_settings, strategies as st
from simdjson import Parser
from sqlalchemy import func, select, text

from app.db.engine import Database
from app.db.models import Delivery
from app.domain.states import DeliveryState
from app.queue.jobs import JobName
from app.web.github_webhook import is_json_object
from app.web.ports import Limits
from tests.web.conftest import SECRET, World, create_tables, get_row, served, signed

BODY = json.dumps({"action": "labeled", "issue": {"number": 7}, "title": "Zähle 🎉"}).encode()


async def stored(world: World) -> int:
    async with world.database.read() as session:
        return await session.scalar(select(func.count()).select_from(Delivery)) or 0


async def post(world: World, body: bytes, headers: dict[str, str]):
    async with world.http() as http:
        return await http.post("/webhooks/github", content=body, headers=headers)


async def test_delivery_signed_then_stored_raw_and_rung(world):
    headers = signed(BODY, X_GitHub_Hook_ID="5", Cookie="secret=1", X_GitHub_Delivery="guid-1")
    answer = await post(world, BODY, headers)
    assert answer.status_code == 202
    assert answer.json() == {"status": "stored", "delivery_id": "guid-1"}
    row = await get_row(world, Delivery, "guid-1")
    assert row.body == BODY
    assert row.event == "issues"
    assert row.state is DeliveryState.RECEIVED
    assert row.received_at == world.clock.now
    assert row.headers == {
        "x-github-event": "issues",
        "x-github-delivery": "guid-1",
        "x-github-hook-id": "5",
        "user-agent": "GitHub-Hookshot/1",
        "content-type": "application/json",
    }
    await world.settled()
    assert world.doorbell.rings == [(JobName.INTAKE, "guid-1", 0)]


async def test_delivery_repeated_fifty_times_at_once_then_one_row_and_one_ring(world):
    headers = signed(BODY)
    answers = await asyncio.gather(*(post(world, BODY, headers) for _ in range(50)))
    assert {answer.status_code for answer in answers} == {202}
    assert await stored(world) == 1
    await world.settled()
    assert len(world.doorbell.rings) == 1


async def test_repeated_delivery_with_other_content_then_the_first_stays(world):
    await post(world, BODY, signed(BODY, X_GitHub_Delivery="same"))
    other = b'{"other": true}'
    assert (await post(world, other, signed(other, X_GitHub_Delivery="same"))).status_code == 202
    assert (await get_row(world, Delivery, "same")).body == BODY


async def test_many_deliveries_at_once_then_they_share_commits(world):
    commits = 0
    transact = world.database.transact

    async def counted(work):
        nonlocal commits
        commits += 1
        return await transact(work)

    world.database.transact = counted
    answers = await asyncio.gather(*(post(world, BODY, signed(BODY)) for _ in range(60)))
    assert {answer.status_code for answer in answers} == {202}
    assert await stored(world) == 60
    assert commits < 30


BAD_SIGNATURES: list[str | bytes | None] = [
    None,
    "",
    "sha256=",
    "sha256=" + "0" * 64,
    "sha1=" + hmac.new(SECRET, BODY, hashlib.sha1).hexdigest(),
    hmac.new(SECRET, BODY, hashlib.sha256).hexdigest(),
    "sha256=" + hmac.new(SECRET, BODY, hashlib.sha256).hexdigest().upper(),
    "sha256=" + hmac.new(SECRET, BODY, hashlib.sha256).hexdigest() + "0",
    "sha256=" + hmac.new(b"other", BODY, hashlib.sha256).hexdigest(),
    "sha256=é".encode("latin-1") + b"\xff" * 60,
]


async def test_signature_missing_or_wrong_then_401_and_nothing_stored(world):
    for signature in BAD_SIGNATURES:
        headers = signed(BODY, X_Hub_Signature_256=None)
        if signature is not None:
            headers["X-Hub-Signature-256"] = signature
        answer = await post(world, BODY, headers)
        assert answer.status_code == 401, signature
        assert answer.headers["content-type"] == "application/problem+json"
    assert await stored(world) == 0
    assert world.doorbell.rings == []


async def test_secret_rotating_then_both_are_accepted(make_world):
    world = make_world(github_webhook_secret="old, new")
    await create_tables(world)
    for secret in (b"old", b"new"):
        assert (await post(world, BODY, signed(BODY, secret))).status_code == 202
    assert (await post(world, BODY, signed(BODY, SECRET))).status_code == 401


async def test_no_secret_configured_then_401_for_everything(make_world):
    world = make_world()
    world.parts.settings = world.settings.model_copy(update={"github_webhook_secret": None})
    assert (await post(world, BODY, signed(BODY, b""))).status_code == 401


BAD_HEADERS: list[dict[str, str | None]] = [
    {"X_GitHub_Event": None},
    {"X_GitHub_Delivery": None},
    {"X_GitHub_Delivery": "x" * 65},
    {"X_GitHub_Delivery": "a/../b"},
    {"X_GitHub_Event": "no spaces"},
    {"Content_Type": "application/x-www-form-urlencoded"},
]


async def test_header_missing_or_malformed_then_400(world):
    for changes in BAD_HEADERS:
        assert (await post(world, BODY, signed(BODY, **changes))).status_code == 400, changes
    assert await stored(world) == 0


BAD_BODIES = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'"text"',
    b"payload=%7B%7D",
    b'{"a": NaN}',
    b'{"a": -Infinity}',
    b'{"a": "\\ud800"}',
    b'{"\\udfff": 1}',
    b'{"a": "\xff"}',
    b'\xef\xbb\xbf{"a": 1}',
    '{"a": 1}'.encode("utf-16"),
    b'{"a": ' + b"9" * 5000 + b"}",
    b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    b"[" * 100_000,
]


async def test_body_not_a_json_object_then_400_and_nothing_stored(world):
    for number, body in enumerate(BAD_BODIES):
        assert (await post(world, body, signed(body))).status_code == 400, number
    assert await stored(world) == 0


@pytest.mark.parametrize(
    "body",
    [
        b'{"title": "\\ud83c\\udf89"}',
        b'{"title": "NaN, or Infinity?"}',
        b'{"a": 1, "a": {"b": 1, "b": 2}}',
        b'{"a":' * 250 + b"1" + b"}" * 250,
    ],
    ids=["escaped emoji", "words that are no numbers", "repeated names", "deep"],
)
async def test_unusual_json_object_then_stored(world, body):
    assert (await post(world, body, signed(body))).status_code == 202


@hypothesis_settings(max_examples=60)
@given(body=st.binary(max_size=200) | st.text(alphabet='{}[]":,\\u0d8e1 -.NaIn', max_size=60).map(str.encode))
async def test_any_signed_bytes_then_202_or_400(world, body):
    assert (await post(world, body, signed(body))).status_code in (202, 400)


@pytest.mark.parametrize("before", [0, 1500, 3993, 4000, 11_990])
@pytest.mark.parametrize(("digits", "read"), [(4300, True), (4301, False)])
def test_long_number_anywhere_then_taken_as_far_as_python_reads_it(before, digits, read):
    assert reads(b" " * before + b'{"a": -' + b"7" * digits + b"}") is read


@pytest.mark.parametrize(("depth", "read"), [(900, True), (1020, True), (1030, False), (100_000, False)])
def test_deep_then_read_up_to_a_thousand_levels(depth, read):
    assert reads(b'{"a":' * depth + b"1" + b"}" * depth) is read


@hypothesis_settings(max_examples=300)
@given(
    inner=st.lists(
        st.sampled_from(
            ["{", "}", "[", "]", ",", ":", '"', "\\", "\\u", "d83d", "\\ude00", "00e9", "é", "-", "0", "1", ".", "e", "+", "true",
             "nul", "NaN", "Infinity", "\ufeff", "18446744073709551616", "1e400", "\t", "\x01", "\x7f", " ", '"a":', '"b":[', "\ud800"]
        ),
        max_size=8,
    ).map("".join)
)  # fmt: skip
def test_any_text_within_an_object_then_taken_just_when_python_reads_it(inner):
    body = f'{{"a":{inner}}}'.encode(errors="surrogatepass")
    assert reads(body) is reads_strictly(body)


def reads(body):
    return is_json_object(body, Parser())


def reads_strictly(body):
    def refuse(constant):
        raise ValueError(constant)

    try:
        value = json.loads(body.decode(), parse_constant=refuse)
        json.dumps(value, ensure_ascii=False).encode()
    except ValueError:
        return False
    return isinstance(value, dict)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.text(st.characters(codec="utf-8"), max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner)
    ),
    max_leaves=10,
)


@hypothesis_settings(max_examples=40)
@given(
    value=st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), json_values), plain=st.booleans()
)
def test_any_json_object_then_accepted(value, plain):
    assert reads(json.dumps(value, ensure_ascii=plain).encode())


async def test_declared_too_large_then_413_before_the_signature_is_looked_at(make_world):
    world = make_world(Limits(webhook_bytes=1000))
    answer = await post(world, b"x" * 1001, {})
    assert answer.status_code == 413


async def test_chunked_body_too_large_then_413(make_world):
    world = make_world(Limits(webhook_bytes=100_000))

    async def pieces():
        for _ in range(30):
            yield b"x" * 10_000

    async with served(world.app) as url:
        import httpx

        async with httpx.AsyncClient() as http:
            answer = await http.post(f"{url}/webhooks/github", content=pieces())
    assert answer.status_code == 413
    assert answer.headers["connection"] == "close"


async def test_body_stalls_then_408_and_others_are_served(make_world):
    world = make_world(Limits(webhook_body_s=0.2))
    async with served(world.app) as url:
        port = int(url.rsplit(":", 1)[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /webhooks/github HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        await writer.drain()
        async with asyncio.timeout(2):
            assert b" 408 " in await reader.readline()
        writer.close()


async def test_body_trickles_then_408(make_world):
    world = make_world(Limits(webhook_body_s=0.3))
    async with served(world.app) as url:
        port = int(url.rsplit(":", 1)[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /webhooks/github HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n")

        async def trickle():
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.05)

        task = asyncio.create_task(trickle())
        async with asyncio.timeout(2):
            assert b" 408 " in await reader.readline()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        writer.close()


async def test_storage_missing_then_503_for_all_and_nothing_rung(make_world):
    world = make_world()  # no tables
    answers = await asyncio.gather(*(post(world, BODY, signed(BODY)) for _ in range(5)))
    assert {answer.status_code for answer in answers} == {503}
    await world.settled()
    assert world.doorbell.rings == []


async def test_storage_can_not_be_opened_then_503_at_once(make_world, tmp_path):
    world = make_world(Limits(webhook_store_s=60))
    away = Database(f"sqlite+aiosqlite:///{tmp_path}/away.db")
    (tmp_path / "away.db").mkdir()
    world.parts.database, kept = away, world.database
    async with asyncio.timeout(20):
        answers = await asyncio.gather(*(post(world, BODY, signed(BODY)) for _ in range(5)))
    assert {answer.status_code for answer in answers} == {503}
    await away.aclose()
    world.parts.database = kept


async def test_storage_back_after_503_then_the_same_guid_is_processed(make_world):
    world = make_world()
    headers = signed(BODY)
    assert (await post(world, BODY, headers)).status_code == 503
    await create_tables(world)
    assert (await post(world, BODY, headers)).status_code == 202
    assert await stored(world) == 1
    await world.settled()
    assert len(world.doorbell.rings) == 1


async def test_storage_blocked_then_503_in_time(make_world):
    world = make_world(Limits(webhook_store_s=0.2))
    await create_tables(world)
    async with world.database.write() as session:
        if world.database.dialect == "postgresql":  # SQLite's writers wait for one another anyway.
            await session.execute(text("lock table delivery in access exclusive mode"))
        async with asyncio.timeout(1):
            assert (await post(world, BODY, signed(BODY))).status_code == 503


async def test_storage_stays_blocked_then_each_that_comes_has_its_own_time(make_world):
    world = make_world(Limits(webhook_store_s=0.2))
    await create_tables(world)
    loop = asyncio.get_running_loop()
    async with world.database.write() as session:
        if world.database.dialect == "postgresql":
            await session.execute(text("lock table delivery in access exclusive mode"))
        for _ in range(4):
            began = loop.time()
            async with asyncio.timeout(5):
                assert (await post(world, BODY, signed(BODY))).status_code == 503
            assert loop.time() - began > 0.15


async def test_group_that_can_not_be_packed_then_503_at_once_and_the_next_is_stored(world, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("app.db.deliveries.pack", lambda _: 1 // 0)
        async with asyncio.timeout(5):
            assert (await post(world, BODY, signed(BODY))).status_code == 503
    assert (await post(world, BODY, signed(BODY))).status_code == 202


async def test_outcomes_are_counted(world):
    await post(world, BODY, signed(BODY))
    await post(world, BODY, {})
    async with world.http() as http:
        text = (await http.get("/metrics")).text
    assert 'issuewright_deliveries_total{outcome="stored"} 1.0' in text
    assert 'issuewright_deliveries_total{outcome="401"} 1.0' in text
    assert "issuewright_oldest_unhandled_delivery_seconds 0.0" in text
