"""What a sandbox had ready when it ended, and the app had not heard of, is fetched before it is removed: by every step that
takes one down.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest

from app.db.events import EventFilter, list_events, record_events
from app.db.models import Sandbox
from app.db.processes import record_beat
from app.db.relay import find_relayed
from app.db.sandboxes import set_sandbox
from app.db.specs import record_fact
from app.domain.errors import RetryAt
from app.domain.ids import SandboxId
from app.domain.ports import SandboxOrder, SandboxSight, SandboxStatus
from app.domain.remote import Left
from app.domain.states import SpecState, TaskState
from app.web.event_intake import parse_events
from sandbox_payload.wire import MAX_EVENTS_BYTES, EventsReceipt, Manifest
from sandbox_payload.wire.relay import RelayedAnswer, RelayedCall
from tests.worker.bench import Bench
from tests.worker.planning import tasks
from tests.worker.test_comments import say
from tests.worker.test_life import start
from worker.flow.left import LEFT_LIMIT

TOLD = "room at the sandbox provider to start a sandbox once more"
GIVEN_UP = "could not be fetched"


@dataclass
class Kept:
    """A provider that keeps files, and the app's door: `full` while there is no room to start what stands still."""

    bench: Bench
    left: Left = field(default_factory=Left)
    full: bool = False
    away: int = 0
    """How many calls the app does not answer."""
    asked: int = 0
    calls: list[RelayedCall] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    async def save_left(self, name: str, directory: Path) -> Left:
        self.asked += 1
        if self.full:
            raise RetryAt("the quota is used up", self.bench.clock() + timedelta(seconds=60))
        directory.mkdir(parents=True)
        found = {}
        for what, place in vars(self.left).items():
            if isinstance(place, Path):
                found[what] = Path(shutil.copy(place, directory / what))
        spool = tuple(Path(shutil.copy(place, directory)) for place in self.left.spool)
        return replace(self.left, **found, spool=spool)

    async def ask(
        self, sandbox_id: str, token: str, call: RelayedCall, body: bytes | Path | None
    ) -> RelayedAnswer:
        """As the app takes events and artifacts in."""
        data = body.read_bytes() if isinstance(body, Path) else body or b""
        if self.away:
            self.away -= 1
            return RelayedAnswer(call=call.call, status=503)
        self.calls.append(call)
        self.bodies.append(data)
        if call.path == "/events":
            receipt = await self.take_events(sandbox_id, data)
            return RelayedAnswer(call=call.call, status=200, body=receipt.model_dump_json())
        name = call.path.rpartition("/")[2]
        (order,) = (one for one in self.bench.sandboxes.orders.values() if one.sandbox_id == sandbox_id)
        await self.bench.upload(name, data, of=order.name)
        if name == "manifest.json":
            async with self.bench.db.write() as session:
                await set_sandbox(
                    session, sandbox_id, self.bench.clock(), manifest_round=json.loads(data)["round"]
                )
                await record_fact(session, str(order.labels["spec"]), self.bench.clock())
        return RelayedAnswer(call=call.call, status=204)

    async def take_events(self, sandbox_id: str, data: bytes) -> EventsReceipt:
        assert len(data) <= MAX_EVENTS_BYTES
        events = parse_events(data, self.bench.clock())
        async with self.bench.db.write() as session:
            row = await session.get_one(Sandbox, sandbox_id)
            await record_events(session, row, events, self.bench.clock())
            return EventsReceipt(last_seq=row.last_seq)

    def sent(self) -> list[int]:
        """The numbers of all events that the app was given, in this order."""
        found = zip(self.calls, self.bodies, strict=True)
        return [
            event["seq"]
            for call, body in found
            if call.path == "/events"
            for event in json.loads(body)["events"]
        ]


@pytest.fixture
def kept(bench: Bench) -> Kept:
    found = Kept(bench)
    bench.sandboxes.save_left = found.save_left  # type: ignore[attr-defined]
    bench.parts = replace(bench.parts, door=found)
    return found


def leave_work(bench: Bench, kept: Kept) -> None:
    """The newest sandbox has committed half of the work, and nobody has heard of it."""
    _, bundle = bench.commit("half\n")
    place = bench.scratch / "left.bundle"
    place.write_bytes(bundle)
    kept.left = Left(checkpoint=place)


def leave_round(bench: Bench, kept: Kept, round_: int = 1) -> None:
    """It had ended a round, whose result nobody has heard of."""
    head, bundle = bench.commit(f"round {round_}\n")
    order = bench.sandboxes.newest
    result, manifest = bench.scratch / "left.bundle", bench.scratch / "left.json"
    result.write_bytes(bundle)
    manifest.write_text(
        Manifest(
            sandbox_id=order.sandbox_id, round=round_, start_sha=order.start_sha, head_sha=head,
            bundle_sha256=hashlib.sha256(bundle).hexdigest(), status="completed", summary="Done alone.",
            finished_at=bench.clock(),
        ).model_dump_json()
    )  # fmt: skip
    kept.left = Left(checkpoint=result, result=result, manifest=manifest)


def spool_line(bench: Bench, seq: int, **data: object) -> bytes:
    """As the payload keeps an event."""
    event = {
        "seq": seq, "event_type": "agent.message", "source": "agent", "timestamp": bench.clock().isoformat(),
        "event_data": {"text": f"number {seq}", **data},
    }  # fmt: skip
    return json.dumps(event).encode() + b"\n"


def leave_spool(bench: Bench, kept: Kept, *segments: bytes) -> None:
    """What it had reported to its spool only, the oldest segment first."""
    places = []
    for position, content in enumerate(segments):
        place = bench.scratch / f"{position:012d}.jsonl"
        place.write_bytes(content)
        places.append(place)
    kept.left = replace(kept.left, spool=tuple(places))


async def events_of(bench: Bench, sandbox_id: str) -> list[tuple[int, str]]:
    async with bench.db.read() as session:
        rows = await list_events(session, SandboxId(sandbox_id), EventFilter(), 5_000)
    return [(row.seq, str(row.event_data["text"])) for row in rows]


def stand_still(bench: Bench) -> None:
    """The provider has stopped it."""
    name = bench.sandboxes.newest.name
    bench.sandboxes.sights[name] = SandboxSight(name, SandboxStatus.EXITED, detail="stopped")


def text_on_branch(bench: Bench) -> str:
    return bench.git("show", f"{bench.github.pulls(bench.name)[0]['head']['sha']}:work.txt")


async def test_agent_at_work_is_stopped_then_the_next_one_goes_on_from_what_it_had_ready(
    bench: Bench, kept: Kept
) -> None:
    await start(bench)
    leave_work(bench, kept)
    stand_still(bench)
    await bench.pass_time(30)
    assert text_on_branch(bench) == "half\n"
    assert len(bench.sandboxes.orders) == 2
    assert bench.sandboxes.newest.start_sha == bench.github.pulls(bench.name)[0]["head"]["sha"]


async def test_work_is_paused_and_its_sandbox_ends_without_a_word_then_what_it_had_ready_is_fetched_first(
    bench: Bench, kept: Kept
) -> None:
    number = await start(bench)
    leave_work(bench, kept)
    say(bench, number, "/agent pause")
    await bench.rest()
    await bench.pass_time(10)
    assert (await bench.spec()).state is SpecState.PAUSED
    assert text_on_branch(bench) == "half\n"
    assert bench.sandboxes.sights == {}


async def test_work_is_paused_and_its_sandbox_had_ended_a_round_then_that_is_collected(
    bench: Bench, kept: Kept
) -> None:
    number = await start(bench)
    leave_round(bench, kept)
    say(bench, number, "/agent pause")
    await bench.rest()
    await bench.pass_time(10)
    assert (await bench.spec()).state is SpecState.PAUSED
    assert text_on_branch(bench) == "round 1\n"
    assert [one.state for one in (await tasks(bench)).values()] == [TaskState.COMPLETED]


async def test_work_is_cancelled_and_its_sandbox_ends_without_a_word_then_what_it_had_ready_is_on_the_branch(
    bench: Bench, kept: Kept
) -> None:
    number = await start(bench)
    leave_work(bench, kept)
    bench.unlabel(number)
    await bench.rest()
    await bench.pass_time(10)
    assert (await bench.spec()).state is SpecState.CANCELLED
    assert text_on_branch(bench) == "half\n"
    assert "is on the branch" in bench.status(number)
    assert bench.sandboxes.sights == {}


async def test_sandbox_of_work_in_review_is_stopped_then_the_round_that_it_had_ended_is_collected(
    bench: Bench, kept: Kept
) -> None:
    await start(bench)
    await bench.hand_in()
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    leave_round(bench, kept, 2)
    stand_still(bench)
    await bench.pass_time(30)
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert text_on_branch(bench) == "round 2\n"
    await bench.pass_time(30)
    assert bench.sandboxes.sights == {}


async def test_sandbox_was_over_before_any_worker_saw_it_run_then_its_round_counts(
    bench: Bench, kept: Kept
) -> None:
    create = bench.sandboxes.ensure_created

    async def over_at_once(order: SandboxOrder) -> SandboxSight:
        await create(order)
        if kept.left.manifest is None:
            leave_round(bench, kept)
        stand_still(bench)
        return bench.sandboxes.sights[order.name]

    bench.sandboxes.ensure_created = over_at_once  # type: ignore[method-assign]
    number = bench.open_issue()
    bench.label(number)
    await bench.rest()
    await bench.pass_time(30)
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert text_on_branch(bench) == "round 1\n"
    assert len(bench.sandboxes.orders) == 1


@pytest.mark.parametrize("relayed", [True, False])
async def test_one_behind_a_relay_was_over_before_that_was_noted_then_it_is_noted_before_its_events_are_handed_in(
    bench: Bench, kept: Kept, *, relayed: bool
) -> None:
    create, known = bench.sandboxes.ensure_created, []
    take_events = kept.take_events

    async def over_at_once(order: SandboxOrder) -> SandboxSight:
        await create(order)
        if kept.left.manifest is None:
            leave_round(bench, kept)
            leave_spool(bench, kept, spool_line(bench, 1))
            kept.left = replace(kept.left, relayed=relayed)
        stand_still(bench)
        return bench.sandboxes.sights[order.name]

    async def look(sandbox_id: str, data: bytes) -> EventsReceipt:
        async with bench.db.read() as session:
            known.append(await session.run_sync(find_relayed, [sandbox_id]) == {sandbox_id})
        return await take_events(sandbox_id, data)

    bench.sandboxes.ensure_created = over_at_once  # type: ignore[method-assign]
    kept.take_events = look  # type: ignore[method-assign]
    bench.label(bench.open_issue())
    await bench.rest()
    await bench.pass_time(30)
    assert known == [relayed]


@pytest.mark.parametrize("how", ["watched", "paused", "cancelled", "in review"])
async def test_no_room_to_start_it_once_more_then_that_is_told_and_it_goes_on_when_there_is(
    bench: Bench, kept: Kept, how: str
) -> None:
    number = await start(bench)
    if how == "in review":
        await bench.hand_in()
        await bench.rest()
        leave_round(bench, kept, 2)
    else:
        leave_work(bench, kept)
    kept.full = True
    stand_still(bench)
    if how == "paused":
        say(bench, number, "/agent pause")
    elif how == "cancelled":
        bench.unlabel(number)
    await bench.rest()
    await bench.pass_time(900, 60)
    assert TOLD in bench.status(number)
    assert len(bench.sandboxes.sights) == 1, "it is kept"
    assert kept.asked < 25
    kept.full = False
    await bench.pass_time(180, 15)
    assert text_on_branch(bench) == ("round 2\n" if how == "in review" else "half\n")
    assert TOLD not in bench.status(number)
    assert GIVEN_UP not in bench.status(number)


async def test_that_there_is_no_room_shows_between_two_looks_only_then_it_is_told_and_given_up_all_the_same(
    bench: Bench, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.flow.left.PATIENCE_S", 0.0)
    number = await start(bench)
    await bench.checkpoint("quarter\n")
    leave_work(bench, kept)
    kept.full = True
    stand_still(bench)
    await bench.pass_time(900, 30)
    assert TOLD in bench.status(number)
    await bench.pass_time(LEFT_LIMIT.total_seconds() + 900, 300)
    assert GIVEN_UP in bench.status(number)
    assert text_on_branch(bench) == "quarter\n"
    assert len(bench.sandboxes.orders) == 2


async def test_no_room_for_hours_then_it_is_given_up_and_told_and_the_work_goes_on_from_what_is_known(
    bench: Bench, kept: Kept
) -> None:
    number = await start(bench)
    await bench.checkpoint("quarter\n")
    leave_work(bench, kept)
    kept.full = True
    stand_still(bench)
    await bench.pass_time(LEFT_LIMIT.total_seconds() + 900, 300)
    assert GIVEN_UP in bench.status(number)
    assert TOLD not in bench.status(number)
    assert text_on_branch(bench) == "quarter\n"
    assert len(bench.sandboxes.orders) == 2
    await bench.hand_in()
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IN_REVIEW


async def test_no_room_for_hours_while_work_is_cancelled_then_it_is_cancelled_all_the_same(
    bench: Bench, kept: Kept
) -> None:
    number = await start(bench)
    kept.full = True
    stand_still(bench)
    bench.unlabel(number)
    await bench.rest()
    await bench.pass_time(LEFT_LIMIT.total_seconds() + 900, 300)
    assert (await bench.spec()).state is SpecState.CANCELLED
    assert GIVEN_UP in bench.status(number)
    assert bench.sandboxes.sights == {}


async def test_events_were_on_their_way_when_it_was_stopped_then_they_come_before_its_result(
    bench: Bench, kept: Kept
) -> None:
    await start(bench)
    sandbox_id = bench.sandboxes.newest.sandbox_id
    leave_round(bench, kept)
    known = b"".join(spool_line(bench, seq) for seq in (1, 2))
    leave_spool(bench, kept, known + spool_line(bench, 3), spool_line(bench, 4))
    await kept.take_events(sandbox_id, b'{"events":[%s]}' % known.strip().replace(b"\n", b","))
    kept.away = 1
    stand_still(bench)
    await bench.pass_time(30)
    assert await events_of(bench, sandbox_id) == [(seq, f"number {seq}") for seq in (1, 2, 3, 4)]
    assert kept.sent() == [3, 4], "what the app has is not sent again"
    assert kept.calls[0].path == "/events"
    assert kept.calls[-1].path == "/artifacts/manifest.json"
    assert (await bench.spec()).state is SpecState.IN_REVIEW


async def test_one_that_waited_for_words_ends_by_itself_then_the_events_that_had_not_arrived_are_fetched(
    bench: Bench, kept: Kept
) -> None:
    await start(bench)
    sandbox_id = bench.sandboxes.newest.sandbox_id
    await bench.hand_in()
    await bench.rest()
    leave_spool(bench, kept, spool_line(bench, 1) + spool_line(bench, 2))
    bench.sandboxes.end(bench.sandboxes.newest.name, 0)
    await bench.pass_time(30)
    assert await events_of(bench, sandbox_id) == [(1, "number 1"), (2, "number 2")]
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert bench.sandboxes.sights == {}


async def test_one_that_waited_for_words_ends_by_itself_and_all_had_arrived_then_the_app_is_not_asked(
    bench: Bench, kept: Kept
) -> None:
    await start(bench)
    await bench.hand_in()
    await bench.rest()
    leave_round(bench, kept, 1)
    bench.sandboxes.end(bench.sandboxes.newest.name, 0)
    await bench.pass_time(30)
    assert kept.asked == 1
    assert kept.calls == []
    assert bench.sandboxes.sights == {}


@pytest.mark.parametrize("how", ["watched", "cancelled", "in review"])
async def test_app_is_away_when_a_sandbox_has_ended_then_that_is_told_and_nothing_is_lost_when_it_is_back(
    bench: Bench, kept: Kept, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.flow.on_behalf.AWAY_LIMIT_S", 0.0)
    number = await start(bench)
    if how == "in review":
        await bench.hand_in()
        await bench.rest()
        leave_round(bench, kept, 2)
    else:
        leave_work(bench, kept)
    kept.away = 1_000_000
    stand_still(bench)
    if how == "cancelled":
        bench.unlabel(number)
    await bench.rest()
    await bench.pass_time(1_800, 60)
    assert "web process, which can't be reached" in bench.status(number)
    assert len(bench.sandboxes.sights) == 1, "it is kept"
    kept.away = 0
    await bench.pass_time(90, 15)
    assert text_on_branch(bench) == ("round 2\n" if how == "in review" else "half\n")
    assert "web process" not in bench.status(number)


async def test_app_is_away_for_hours_then_what_was_left_is_given_up_and_told(
    bench: Bench, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.flow.on_behalf.AWAY_LIMIT_S", 0.0)
    number = await start(bench)
    leave_work(bench, kept)
    kept.away = 1_000_000
    stand_still(bench)
    bench.unlabel(number)
    await bench.pass_time(LEFT_LIMIT.total_seconds() + 900, 300)
    assert (await bench.spec()).state is SpecState.CANCELLED
    assert "the operator's web process did not answer" in bench.status(number)
    assert bench.sandboxes.sights == {}


async def test_app_lives_and_this_worker_can_not_reach_it_then_that_is_given_up_within_minutes_and_told(
    bench: Bench, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.flow.on_behalf.AWAY_LIMIT_S", 0.0)

    async def beat() -> None:
        async with bench.db.write() as session:
            await record_beat(session, "web-1", "web", "elsewhere", 1, "0", bench.clock())

    await beat()
    number = await start(bench)
    leave_work(bench, kept)
    kept.away = 1_000_000
    stand_still(bench)
    bench.unlabel(number)
    states = []
    for _ in range(15):
        await bench.pass_time(60, 20)
        await beat()
        states.append((await bench.spec()).state)
    assert states[8] is SpecState.IMPLEMENTING, "it may be starting"
    assert states[-1] is SpecState.CANCELLED
    assert "could not reach the web process" in bench.status(number)


async def test_its_events_are_a_strangers_then_what_is_none_is_skipped_and_the_rest_and_its_work_count(
    bench: Bench, kept: Kept
) -> None:
    await start(bench)
    sandbox_id = bench.sandboxes.newest.sandbox_id
    leave_work(bench, kept)
    forged = json.loads(spool_line(bench, 2))
    leave_spool(
        bench,
        kept,
        b"".join(
            [
                spool_line(bench, 1),
                b"\xff\x00 no event\n[]\n\n",
                json.dumps(forged | {"source": "system"}).encode() + b"\n",
                json.dumps(forged | {"seq": -2}).encode() + b"\n",
                spool_line(bench, 2, text="x" * (MAX_EVENTS_BYTES + 1)),
                b"[" * 100_000 + b"\n",
                spool_line(bench, 3),
                spool_line(bench, 4).rstrip(),
            ]
        ),
    )
    stand_still(bench)
    await bench.pass_time(30)
    assert await events_of(bench, sandbox_id) == [(1, "number 1"), (3, "number 3")]
    assert text_on_branch(bench) == "half\n"


async def test_many_events_were_left_then_they_come_in_pieces_and_all_of_them(
    bench: Bench, kept: Kept
) -> None:
    await start(bench)
    sandbox_id = bench.sandboxes.newest.sandbox_id
    leave_work(bench, kept)
    long = "y" * 5_000
    leave_spool(bench, kept, b"".join(spool_line(bench, seq, more=long) for seq in range(1, 501)))
    stand_still(bench)
    await bench.pass_time(30)
    assert [seq for seq, _ in await events_of(bench, sandbox_id)] == list(range(1, 501))
    assert kept.sent() == list(range(1, 501))
    assert len([call for call in kept.calls if call.path == "/events"]) > 2
