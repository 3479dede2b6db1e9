"""From the spool to the app: nothing lost, nothing doubled, nothing stuck."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox_payload.caps import event_json
from sandbox_payload.link import Link
from sandbox_payload.sender import Sender
from sandbox_payload.spool import Spool
from tests.payload.app_stub import SANDBOX_ID, TOKEN, AppStub, Fault


@pytest.fixture
def link(app: AppStub) -> Link:
    return Link(app.url, SANDBOX_ID, TOKEN)


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "spool")
    yield spool
    spool.close()


@pytest.fixture
def sending(spool: Spool, link: Link) -> Iterator[threading.Event]:
    """A running sender; the event is set when the app said that the sandbox has ended."""
    ended = threading.Event()
    sender = Sender(spool, link, ended.set)
    sender.start()
    yield ended
    sender.stop()


def numbers(app: AppStub) -> list[Any]:
    return [data["n"] for data in app.of("agent.message")]


def test_when_answers_are_lost_or_bad_then_every_event_arrives_once_in_order(
    app: AppStub, spool: Spool, sending: threading.Event
) -> None:
    app.faults = [
        Fault("POST /events", after_storing=True),
        Fault("POST /events", status=502),
        Fault("POST /events", status=429),
    ]
    for number in range(500):
        spool.append("agent.message", {"n": number})
    assert spool.wait_empty(20)
    assert numbers(app) == list(range(500))
    assert max(len(post) for post in app.posts) <= 200
    assert not sending.is_set()


def test_when_the_app_restarts_then_sending_goes_on(
    app: AppStub, spool: Spool, sending: threading.Event
) -> None:
    spool.append("agent.message", {"n": 0})
    assert spool.wait_empty(10)
    app.stop()
    spool.append("agent.message", {"n": 1})
    assert not spool.wait_empty(0.3)
    app.start()
    assert spool.wait_empty(10)
    assert numbers(app) == [0, 1]


def test_when_one_event_is_refused_then_a_stub_takes_its_place_and_the_rest_gets_through(
    app: AppStub, spool: Spool, sending: threading.Event
) -> None:
    app.faults = [Fault("POST /events", status=422, times=1_000, when=lambda body: b"poison" in body)]
    for number in range(20):
        spool.append("agent.message", {"n": "poison" if number == 7 else number})
    assert spool.wait_empty(20)
    assert numbers(app) == [number for number in range(20) if number != 7]
    refused = app.of("agent.error")[0]
    assert (refused["refused"], refused["status"], refused["original_type"]) == (True, 422, "agent.message")


def test_when_the_app_has_lost_part_then_it_is_sent_again_from_there(
    app: AppStub, spool: Spool, sending: threading.Event
) -> None:
    app.faults = [Fault("POST /events", status=502, times=1)]
    for number in range(5):
        spool.append("agent.message", {"n": number})
    assert spool.wait_empty(10)
    with app.changed:
        del app.events[4], app.events[5]
    spool.append("agent.message", {"n": 5})
    app.wait(lambda: app.last_seq == 6)
    assert numbers(app) == list(range(6))


def test_when_the_sandbox_has_ended_then_it_is_told_once(
    app: AppStub, spool: Spool, sending: threading.Event
) -> None:
    app.ended = True
    spool.append("agent.message", {"n": 0})
    assert sending.wait(10)


def test_when_the_payload_is_started_again_then_numbers_go_on_and_a_torn_line_is_dropped(
    app: AppStub, tmp_path: Path, link: Link
) -> None:
    first = Spool(tmp_path / "again")
    for number in range(3):
        first.append("agent.message", {"n": number})
    first.acknowledge(1)
    first.close()
    segment = next((tmp_path / "again").glob("*.jsonl"))
    with segment.open("ab") as file:
        file.write(b'{"seq": 4, "event_type": "agent.mess')
    second = Spool(tmp_path / "again")
    assert (second.last_seq, second.acknowledged, second.depth) == (3, 1, 2)
    assert second.append("agent.message", {"n": 3}) == 4
    lines = second.read_after(1, max_bytes=10_000, max_events=10)
    assert [line.seq for line in lines] == [2, 3, 4]
    second.close()


def test_when_much_is_sent_then_the_disk_is_freed_and_reading_goes_on_anywhere(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "much")
    for number in range(120):
        spool.append("agent.message", {"n": number, "text": "x" * 100_000})
    segments = sorted((tmp_path / "much").glob("*.jsonl"))
    assert len(segments) >= 3
    assert [line.seq for line in spool.read_after(57, max_bytes=250_000, max_events=10)] == [58, 59]
    assert [line.seq for line in spool.read_after(59, max_bytes=250_000, max_events=10)] == [60, 61]
    spool.acknowledge(100)
    assert len(list((tmp_path / "much").glob("*.jsonl"))) < len(segments)
    assert [line.seq for line in spool.read_after(100, max_bytes=1, max_events=10)] == [101]
    spool.close()


def test_when_the_spool_is_full_then_bulk_is_counted_and_what_matters_is_kept(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "full", limit_bytes=50_000)
    for _ in range(10):
        spool.append("agent.message", {"text": "x" * 10_000})
    held = spool.last_seq
    assert held < 10
    assert spool.append("agent.completed", {"round": 1}) is not None
    texts = [line.raw for line in spool.read_after(0, max_bytes=10**9, max_events=1_000)]
    assert b'"events_left_out"' in texts[-2]
    assert b'"agent.message":' in texts[-2]
    assert b"agent.completed" in texts[-1]
    spool.close()


@pytest.mark.parametrize(
    "data",
    [
        {"text": "x" * 5_000_000},
        {"list": ["é" * 50_000] * 100},
        {"deep": [[[[[[[[[[[[[[[[[[[[[[[[[[[[["x"]]]]]]]]]]]]]]]]]]]]]]]]]]]]]},
        {"odd": "\ud800 \x00", "bytes": b"\xff", "nan": float("nan"), "object": object(), 1: "key"},
        {str(number): "x" * 1_000 for number in range(5_000)},
    ],
)
def test_when_an_event_is_huge_or_odd_then_it_is_stored_cut_and_clean(data: dict[str, Any]) -> None:
    text = event_json(data)
    assert len(text.encode()) < 1_000_000
    assert "\\u0000" not in text
