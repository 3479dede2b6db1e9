"""Calls that a worker carries: the payload's own link on one side, the app on the other, a carrier between them."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from app.db.models import Artifact, Event, Message, Relay, Sandbox
from app.db.relay import RelayedSandbox, record_relay
from app.domain.errors import RetryAt, TooMuch
from app.domain.ids import SandboxId
from app.domain.states import MessageState, SandboxState
from app.observability.crashpoints import arm
from sandbox_payload.link import NotAuthorized, Refused
from sandbox_payload.link_files import FilesLink
from sandbox_payload.wire.relay import Lane, RelayedAnswer, RelayedCall, RelayIndex
from tests.web.conftest import OPERATOR, START_SHA, T0, World, add_sandbox, event, served
from worker.supervise.app_door import AppDoor
from worker.supervise.carrier import Carrier
from worker.supervise.relay import HOLD, Relays

PATIENCE_S = 60.0


@dataclass
class Folder:
    """A sandbox's files as the toolbox shows them. `fail` makes the next calls of a kind fail; `read` counts bytes."""

    state: Path
    fail: dict[str, int] = field(default_factory=dict)
    read: int = 0

    async def fetch_file(self, name: str, file: str, limit: int) -> bytes | None:
        self._maybe_fail("fetch")
        path = self.state / file
        if not path.is_file():
            return None
        with path.open("rb") as opened:
            data = opened.read(limit + 1)
        self.read += len(data)
        if len(data) > limit:
            raise TooMuch("too much")
        return data

    async def save_file(self, name: str, file: str, target: Path, limit: int) -> bool:
        data = await self.fetch_file(name, file, limit)
        if data is not None:
            target.write_bytes(data)
        return data is not None

    async def put_file(self, name: str, file: str, data: bytes) -> None:
        self._maybe_fail("put")
        (self.state / file).parent.mkdir(parents=True, exist_ok=True)
        (self.state / file).write_bytes(data)

    def _maybe_fail(self, kind: str) -> None:
        if self.fail.get(kind, 0) > 0:
            self.fail[kind] -= 1
            raise RetryAt("away", T0)


@dataclass
class Rig:
    world: World
    sandbox_id: str
    token: str
    files: Folder
    door: AppDoor
    scratch: Path

    def carrier(self) -> Carrier:
        one = RelayedSandbox(SandboxId(self.sandbox_id), "iw-test")
        return Carrier(one, self.token, self.files, self.door, self.scratch)

    def link(self) -> FilesLink:
        return FilesLink(self.files.state, self.sandbox_id)

    @asynccontextmanager
    async def carried(self) -> AsyncIterator[FilesLink]:
        link, work = self.link(), asyncio.create_task(self.carrier().run())
        yield link
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    async def rows(self, table: type[Any]) -> list[Any]:
        async with self.world.database.read() as session:
            return list(await session.scalars(select(table)))

    def hand_out(self, lane: Lane, method: str, path: str, body: bytes | None = None, **more: Any) -> str:
        """As whatever runs in the sandbox might; the number of the call."""
        number = secrets.token_hex(8)
        out = self.files.state / "relay" / "out"
        out.mkdir(parents=True, exist_ok=True)
        if body is not None:
            (out / f"{number}.body").write_bytes(body)
        size = None if body is None else len(body)
        call = RelayedCall.model_construct(call=number, method=method, path=path, size=size, **more)
        index = RelayIndex.model_construct(calls={lane: call})
        (out / "index.json").write_text(index.model_dump_json(warnings=False))
        return number

    def answer(self, lane: Lane) -> RelayedAnswer | None:
        path = self.files.state / "relay" / "in" / f"{lane.value}.json"
        return RelayedAnswer.model_validate_json(path.read_bytes()) if path.exists() else None

    async def carry_once(self) -> None:
        carrier = self.carrier()
        await carrier.look()
        await carrier.settle()


@pytest.fixture
async def rig(world: World, tmp_path: Path) -> AsyncIterator[Rig]:
    sandbox_id, token = await add_sandbox(world)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    async with served(world.app) as url:
        door = AppDoor(tmp_path / "no.sock", url)
        yield Rig(world, sandbox_id, token, Folder(tmp_path / "state"), door, scratch)
        await door.aclose()


def batch(*seqs: int) -> bytes:
    return json.dumps({"events": [event(seq) for seq in seqs]}).encode()


async def in_thread(call: Callable[..., Any], *arguments: Any) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        return await asyncio.to_thread(call, *arguments)


async def test_every_call_of_the_link_gets_there_and_its_answer_back(rig: Rig, tmp_path: Path) -> None:
    bundle = tmp_path / "work.bundle"
    bundle.write_bytes(bytes(range(256)) * 5_000)
    async with rig.carried() as link:
        assert await in_thread(link.post_events, batch(1, 2)) == 2
        asked = asyncio.create_task(in_thread(link.fetch_messages, 0, 10))
        async with rig.world.http(**OPERATOR) as http:
            said = await http.post(
                f"/api/v1/sandboxes/{rig.sandbox_id}/messages",
                json={"content": "caf\u00e9 \U0001f319", "message_type": "user_message"},
            )
        assert said.status_code == 201
        page = await asked
        assert [one.content for one in page.messages] == ["caf\u00e9 \U0001f319"]
        await in_thread(link.acknowledge_message, page.messages[0].id)
        await in_thread(link.put_artifact, "checkpoint.bundle", bundle)
    assert [row.state for row in await rig.rows(Message)] == [MessageState.ACKNOWLEDGED]
    stored = [row for row in await rig.rows(Artifact) if row.current]
    assert [(row.name, row.size) for row in stored] == [("checkpoint.bundle", 1_280_000)]
    assert not list(rig.scratch.iterdir())
    assert not list((rig.files.state / "relay" / "out").glob("*.body"))


async def test_answer_lost_on_its_way_then_carried_again_and_stored_once(rig: Rig) -> None:
    rig.files.fail["put"] = 1
    async with rig.carried() as link:
        assert await in_thread(link.post_events, batch(1)) == 1
    assert [row.seq for row in await rig.rows(Event)] == [1]


async def test_worker_dies_between_asking_the_app_and_answering_then_the_next_one_answers(
    rig: Rig, tmp_path: Path
) -> None:
    arm("relay.after=raise", tmp_path)
    number = rig.hand_out(Lane.EVENTS, "POST", "/events", batch(1))
    rig.files.fail["put"] = 1
    first = rig.carrier()
    await first.look()
    while not await rig.rows(Event):
        await asyncio.sleep(0.01)
    await first.stop()
    assert rig.answer(Lane.EVENTS) is None
    arm("", tmp_path)
    await rig.carry_once()
    answer = rig.answer(Lane.EVENTS)
    assert answer is not None
    assert (answer.call, json.loads(answer.body)["last_seq"]) == (number, 1)
    assert len(await rig.rows(Event)) == 1


async def test_toolbox_away_for_a_while_then_what_waited_is_carried(rig: Rig) -> None:
    rig.files.fail["fetch"] = 2
    async with rig.carried() as link:
        assert await in_thread(link.post_events, batch(1)) == 1


async def test_answer_seen_half_written_then_waited_for(rig: Rig) -> None:
    link = rig.link()
    asked = asyncio.create_task(in_thread(link.post_events, batch(1)))
    index = rig.files.state / "relay" / "out" / "index.json"
    while not index.exists() or not json.loads(index.read_text())["calls"]:
        await asyncio.sleep(0.01)
    await rig.carry_once()
    place = rig.files.state / "relay" / "in" / "events.json"
    whole = place.read_bytes()
    place.write_bytes(whole[:20])
    await asyncio.sleep(0.1)
    place.write_bytes(whole)
    assert await asked == 1


async def test_index_cut_short_or_nonsense_then_nothing_is_carried(rig: Rig) -> None:
    rig.hand_out(Lane.EVENTS, "POST", "/events", batch(1))
    index = rig.files.state / "relay" / "out" / "index.json"
    whole = index.read_bytes()
    for hostile in (whole[:40], b"\xff\x00" * 50, b"[]", b"9" * 1_000_000, b'{"calls": {"events": 3}}'):
        index.write_bytes(hostile)
        before = rig.files.read
        assert await rig.carrier().look() == 0
        assert rig.files.read - before < 20_000
    index.write_bytes(whole)
    await rig.carry_once()
    assert len(await rig.rows(Event)) == 1


@pytest.mark.parametrize(
    ("lane", "method", "path"),
    [
        (Lane.EVENTS, "POST", "/../sbx_00000000000000000002/events"),
        (Lane.EVENTS, "POST", "/events?x=1"),
        (Lane.EVENTS, "DELETE", "/events"),
        (Lane.MESSAGES, "GET", "/messages?after=0&wait=0#/../../specs"),
        (Lane.MESSAGES, "POST", "/model/v1/messages"),
        (Lane.ACKS, "POST", "/messages"),
        (Lane.ARTIFACTS, "PUT", "/artifacts/../../healthz"),
        (Lane.ARTIFACTS, "PUT", "/artifacts/a\r\nHost: x"),
    ],
)
async def test_call_that_is_none_of_the_sandbox_api_is_not_carried(
    rig: Rig, lane: Lane, method: str, path: str
) -> None:
    await add_sandbox(rig.world, 2)
    number = rig.hand_out(lane, method, path, batch(1))
    await rig.carry_once()
    answer = rig.answer(lane)
    assert answer == RelayedAnswer(call=number, status=404, body="this is not carried")
    assert await rig.rows(Event) == []


async def test_forged_ids_in_what_is_carried_are_refused_as_over_http(rig: Rig, tmp_path: Path) -> None:
    other, _ = await add_sandbox(rig.world, 2)
    manifest = tmp_path / "manifest.json"
    manifest.write_text(
        json.dumps({"sandbox_id": other, "round": 1, "start_sha": START_SHA, "head_sha": START_SHA})
    )
    async with rig.carried() as link:
        with pytest.raises(Refused) as refused:
            await in_thread(link.put_artifact, "manifest.json", manifest)
    assert refused.value.status == 422


async def test_body_larger_than_allowed_is_not_read_on_and_refused(rig: Rig) -> None:
    rig.hand_out(Lane.EVENTS, "POST", "/events", b"x" * 5_000_000)
    await rig.carry_once()
    answer = rig.answer(Lane.EVENTS)
    assert answer is not None
    assert answer.status == 413
    assert rig.files.read < 1_100_000


async def test_body_gone_or_cut_short_then_it_never_reaches_the_app(rig: Rig) -> None:
    number = rig.hand_out(Lane.EVENTS, "POST", "/events", batch(1))
    body = rig.files.state / "relay" / "out" / f"{number}.body"
    body.write_bytes(batch(1)[:-9])
    carrier = rig.carrier()
    await carrier.look()
    await carrier.settle()
    assert rig.answer(Lane.EVENTS) is None
    body.write_bytes(batch(1))
    assert await carrier.look() == 1, "tried again"
    await carrier.settle()
    assert rig.answer(Lane.EVENTS) is not None
    rig.hand_out(Lane.EVENTS, "POST", "/events", batch(2))
    for body in (rig.files.state / "relay" / "out").glob("*.body"):
        body.unlink()
    await rig.carry_once()
    assert [row.seq for row in await rig.rows(Event)] == [1]


async def test_flood_is_throttled_as_over_http(rig: Rig) -> None:
    rig.world.parts.event_count.wait_s(rig.sandbox_id, 50_000)
    rig.hand_out(Lane.EVENTS, "POST", "/events", batch(*range(1, 500)))
    await rig.carry_once()
    answer = rig.answer(Lane.EVENTS)
    assert answer is not None
    assert (answer.status, answer.retry_after is not None) == (429, True)


async def test_sandbox_has_ended_then_its_payload_is_told(rig: Rig) -> None:
    async with rig.world.database.write() as session:
        row = await session.get(Sandbox, rig.sandbox_id)
        assert row is not None
        row.state = SandboxState.COMPLETED
    async with rig.carried() as link:
        with pytest.raises(NotAuthorized):
            await in_thread(link.post_events, batch(1))


async def test_payload_gave_a_call_up_then_its_newer_one_is_carried_at_once(rig: Rig) -> None:
    carrier = rig.carrier()
    rig.hand_out(Lane.MESSAGES, "GET", "/messages?after=0&wait=25")
    await carrier.look()
    number = rig.hand_out(Lane.MESSAGES, "GET", "/messages?after=0&wait=0")
    await carrier.look()
    async with asyncio.timeout(PATIENCE_S):
        await carrier.settle()
    answer = rig.answer(Lane.MESSAGES)
    assert answer is not None
    assert answer.call == number


# ------------------------------------------------------------ whose turn it is


class Standing:
    """Carries nothing, until it is ended."""

    def __init__(self, worker: str, log: list[str]) -> None:
        self._worker, self._log = worker, log

    async def run(self) -> None:
        self._log.append(self._worker)
        await asyncio.get_running_loop().create_future()


@dataclass
class Worker:
    db: Any
    clock: Any
    worker_id: str


def relays(rig: Rig, worker: str, log: list[str]) -> Relays:
    parts: Any = Worker(rig.world.database, rig.world.clock, worker)
    return Relays(parts, lambda _: Standing(worker, log), rig.scratch)  # type: ignore[arg-type, return-value]


async def wait_for(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not check():
            await asyncio.sleep(0.02)


async def test_two_workers_then_one_carries_and_the_other_takes_over_when_it_is_killed(rig: Rig) -> None:
    async with rig.world.database.write() as session:
        await record_relay(session, rig.sandbox_id, T0)
        await record_relay(session, rig.sandbox_id, T0)
    left = rig.scratch / f"{rig.sandbox_id}-0123456789abcdef"
    left.write_bytes(b"of a worker that was killed")
    log: list[str] = []
    first, second = relays(rig, "one", log), relays(rig, "two", log)
    await first.look()
    await second.look()
    await wait_for(lambda: log == ["one"])
    assert not left.exists()
    rig.world.clock.now += HOLD * 2  # as if the first one had been killed: nothing renews
    await second.look()
    await wait_for(lambda: log == ["one", "two"])
    (row,) = await rig.rows(Relay)
    assert row.owner == "two"
    for one in (first, second):
        await one.stop()


async def test_sandbox_that_has_ended_is_nobodys(rig: Rig) -> None:
    async with rig.world.database.write() as session:
        await record_relay(session, rig.sandbox_id, T0)
        row = await session.get(Sandbox, rig.sandbox_id)
        assert row is not None
        row.state = SandboxState.FAILED
    log: list[str] = []
    await relays(rig, "one", log).look()
    assert log == []
