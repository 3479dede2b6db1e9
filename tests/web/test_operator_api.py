"""The operator API and health."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import timedelta

import pytest

from app.db.models import Message, Process, Spec, Task
from app.db.phases import record_phases
from app.domain.states import Flow, PhaseState, SandboxState, SpecState, TaskState
from app.queue.jobs import JobName
from tests.web.conftest import OPERATOR, T0, add_sandbox, add_spec, bearer, event, get_row


@pytest.fixture
async def http(world):
    async with world.http(**OPERATOR) as client:
        yield client


async def report(world, sandbox, *events):
    async with world.http(**bearer(sandbox[1])) as client:
        answer = await client.post(f"/api/v1/sandboxes/{sandbox[0]}/events", json={"events": events})
        assert answer.status_code == 200


# ------------------------------------------------------------ health


async def test_health_then_alive_and_ready_says_what_is_away(world):
    async with world.http() as http:
        assert (await http.get("/healthz")).json() == {"status": "ok"}
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.json()) == (
            200,
            {"database": True, "redis": True, "worker_beat_age_s": None},
        )
        world.redis_up = False
        async with world.database.write() as session:
            session.add(
                Process(
                    id="w",
                    kind="worker",
                    host_id="h",
                    pid=1,
                    version="1",
                    started_at=T0,
                    beat_at=T0 - timedelta(seconds=5),
                )
            )
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.json()) == (
            503,
            {"database": True, "redis": False, "worker_beat_age_s": 5.0},
        )


async def test_database_away_then_not_ready_but_alive_and_metrics_served(make_world):
    world = make_world()
    world.parts.database = _Away()
    async with world.http() as http:
        assert (await http.get("/readyz")).json()["database"] is False
        assert (await http.get("/healthz")).status_code == 200
        assert (await http.get("/metrics")).status_code == 200
        answer = await http.get("/api/v1/specs", headers=OPERATOR)
        assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
    world.parts.database = _Away()


class _Away:
    """A database whose every use fails."""

    def read(self):
        raise ConnectionRefusedError

    write = read

    async def ping(self):
        raise ConnectionRefusedError

    async def aclose(self):
        return None


# ------------------------------------------------------------ lists


@pytest.mark.parametrize("what", ["specs", "tasks", "sandboxes"])
async def test_list_paged_then_each_item_once_newest_first(world, http, what):
    for number in range(1, 8):
        await add_sandbox(world, number)
    seen, cursor = [], None
    while True:
        params = {"limit": 3, **({"cursor": cursor} if cursor else {})}
        page = (await http.get(f"/api/v1/{what}", params=params)).json()
        seen += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
        await add_spec(world, 100 + len(seen), created_at=T0 + timedelta(days=1, seconds=len(seen)))
    assert [item["issue"] for item in seen] == [7, 6, 5, 4, 3, 2, 1]
    assert {"id", "state", "repository", "issue", "created_at", "updated_at"} <= set(seen[0])
    assert seen[0]["repository"] == "alice/widgets"
    if what != "specs":
        assert seen[0]["spec_id"] == "spec_00000000000000000007"


async def test_items_of_one_moment_then_each_once(world, http):
    for number in range(1, 6):
        await add_spec(world, number, created_at=T0, updated_at=T0)
    first = (await http.get("/api/v1/specs", params={"limit": 2})).json()
    second = (await http.get("/api/v1/specs", params={"limit": 200, "cursor": first["next_cursor"]})).json()
    assert len({item["id"] for item in first["items"] + second["items"]}) == 5


BAD_PARAMETERS: list[dict[str, str | int]] = [
    {"limit": 0},
    {"limit": 201},
    {"limit": "x"},
    {"cursor": "!"},
    {"cursor": "bnVsbA"},
    {"cursor": "WyJ4IiwgMV0"},
    {"cursor": "é"},
    {"cursor": "x" * 300},
]


async def test_list_parameter_wrong_then_422(http):
    for params in BAD_PARAMETERS:
        for what in ("specs", "tasks", "sandboxes"):
            assert (await http.get(f"/api/v1/{what}", params=params)).status_code == 422, params


UNKNOWN = [
    "specs/x",
    "specs/x/bundle",
    "tasks/x",
    "sandboxes/x",
    "sandboxes/x/events",
    "sandboxes/x/trajectory",
    "specs/a%00b",
    "sandboxes/a%00b",
]


async def test_unknown_id_then_404(http):
    for path in UNKNOWN:
        assert (await http.get(f"/api/v1/{path}")).status_code == 404, path


# ------------------------------------------------------------ events


async def test_events_filtered_and_paged(world, http):
    sandbox_id, _ = sandbox = await add_sandbox(world)
    times = [
        {
            **event(n, "agent.message" if n % 2 else "agent.tool_use"),
            "timestamp": f"2026-03-01T12:00:{n:02d}Z",
        }
        for n in range(1, 11)
    ]
    await report(world, sandbox, *times)
    path = f"/api/v1/sandboxes/{sandbox_id}/events"

    async def seqs(**params):
        page = (await http.get(path, params=params)).json()
        return [item["seq"] for item in page["items"]], page["next_cursor"]

    assert await seqs() == (list(range(1, 11)), None)
    assert await seqs(limit=4) == ([1, 2, 3, 4], "4")
    assert await seqs(limit=4, cursor=8) == ([9, 10], None)
    assert (await seqs(event_type=["agent.message"]))[0] == [1, 3, 5, 7, 9]
    assert len((await seqs(event_type=["agent.message", "agent.tool_use"]))[0]) == 10
    assert (await seqs(since="2026-03-01T12:00:04Z", until="2026-03-01T13:00:06+01:00"))[0] == [4, 5, 6]
    for bad in (
        {"since": "2026-03-01T12:00:00"},
        {"until": "0001-01-01T00:00:00+14:00"},
        {"cursor": "x"},
        {"wait": 99},
        {"event_type": "a\x00"},
    ):
        assert (await http.get(path, params=bad)).status_code == 422


async def test_waiting_for_events_then_answered_with_a_cursor_that_leads_on(world, http):
    sandbox_id, _ = sandbox = await add_sandbox(world)
    path = f"/api/v1/sandboxes/{sandbox_id}/events"
    poll = asyncio.create_task(http.get(path, params={"wait": 20, "cursor": 0}))
    await asyncio.sleep(0)
    await report(world, sandbox, event(1))
    page = (await poll).json()
    assert ([item["seq"] for item in page["items"]], page["next_cursor"]) == ([1], "1")
    poll = asyncio.create_task(http.get(path, params={"wait": 20, "cursor": "1"}))
    await asyncio.sleep(0)
    world.parts.closing.set()
    assert (await poll).json() == {"items": [], "next_cursor": "1"}


async def test_trajectory_then_heartbeats_folded_also_across_pages(world, http):
    sandbox_id, _ = sandbox = await add_sandbox(world)
    names = ["started", *["heartbeat"] * 700, "tool_use", "heartbeat", "message"]
    events = [event(n, f"agent.{name}") for n, name in enumerate(names, 1)]
    await report(world, sandbox, *events)
    page = (await http.get(f"/api/v1/sandboxes/{sandbox_id}/trajectory")).json()
    shape = [(item["event_type"], item.get("count")) for item in page["items"]]
    assert shape == [
        ("agent.started", None),
        ("agent.heartbeat", 700),
        ("agent.tool_use", None),
        ("agent.heartbeat", 1),
        ("agent.message", None),
    ]
    assert page["next_cursor"] is None
    first = (await http.get(f"/api/v1/sandboxes/{sandbox_id}/trajectory", params={"limit": 2})).json()
    assert [item["event_type"] for item in first["items"]] == ["agent.started", "agent.heartbeat"]
    rest = (
        await http.get(f"/api/v1/sandboxes/{sandbox_id}/trajectory", params={"cursor": first["next_cursor"]})
    ).json()
    assert [item["event_type"] for item in rest["items"]] == [
        "agent.tool_use",
        "agent.heartbeat",
        "agent.message",
    ]


async def test_sandbox_health_then_counts_and_who_is_silent(world, http):
    await add_sandbox(world, 1, last_heartbeat_at=T0, activity="working")
    await add_sandbox(world, 2, last_heartbeat_at=T0 - timedelta(minutes=3))
    await add_sandbox(world, 3, state=SandboxState.COMPLETED)
    found = (await http.get("/api/v1/sandboxes/health")).json()
    assert (found["live"], found["working"], found["waiting"]) == (2, 1, 0)
    assert (found["by_state"]["RUNNING"], found["by_state"]["COMPLETED"], found["by_state"]["FAILED"]) == (
        2,
        1,
        0,
    )
    assert [one["id"] for one in found["silent"]] == ["sbx_00000000000000000002"]


# ------------------------------------------------------------ levers


async def test_message_sent_then_201_and_queued(world, http):
    sandbox_id, _ = await add_sandbox(world)
    answer = await http.post(
        f"/api/v1/sandboxes/{sandbox_id}/messages", json={"content": "stop\x00", "message_type": "interrupt"}
    )
    assert answer.status_code == 201
    assert (answer.json()["seq"], answer.json()["state"]) == (1, "queued")
    import uuid

    row = await get_row(world, Message, uuid.UUID(answer.json()["id"]))
    assert (row.content, row.message_type) == ("stop\N{REPLACEMENT CHARACTER}", "interrupt")


async def test_message_wrong_or_too_late_then_422_404_409(world, http):
    sandbox_id, _ = await add_sandbox(world, 1)
    ended, _ = await add_sandbox(world, 2, state=SandboxState.FAILED)
    path = f"/api/v1/sandboxes/{sandbox_id}/messages"
    for body in (
        {},
        {"content": ""},
        {"content": "x", "message_type": "shout"},
        {"content": 1},
        {"content": "x", "extra": 1},
        [],
    ):
        assert (await http.post(path, json=body)).status_code == 422
    assert (await http.post(path, content=b"{")).status_code == 422
    assert (await http.post(path, content=b'{"content": "\\ud800"}')).status_code == 422
    assert (await http.post(path, content=b"x" * 1_000_001)).status_code == 413
    assert (await http.post("/api/v1/sandboxes/none/messages", json={"content": "x"})).status_code == 404
    assert (await http.post(f"/api/v1/sandboxes/{ended}/messages", json={"content": "x"})).status_code == 409


async def test_spec_shown_then_tasks_and_sandboxes(world, http):
    spec_id = await add_spec(world, 1, notes=["No draft possible."])
    sandbox_id, _ = await add_sandbox(world, 1)
    found = (await http.get(f"/api/v1/specs/{spec_id}")).json()
    assert found["tasks"][0]["id"] == "task_00000000000000000001"
    assert (found["sandbox_ids"], found["phases"], found["plan_hash"]) == ([sandbox_id], [], None)
    assert found["notes"] == ["No draft possible."]


async def test_bundle_then_newest_result_else_checkpoint_else_404(world, http):
    spec_id = await add_spec(world, 1)
    sandbox_id, token = await add_sandbox(world, 1)
    path = f"/api/v1/specs/{spec_id}/bundle"
    assert (await http.get(path)).status_code == 404
    for name, content in (("checkpoint.bundle", b"c" * 1_500_000), ("result.bundle", b"r" * 2_100_000)):
        digest = hashlib.sha256(content).hexdigest()
        async with world.http(**bearer(token)) as client:
            await client.put(
                f"/api/v1/sandboxes/{sandbox_id}/artifacts/{name}",
                content=content,
                headers={"X-Content-SHA256": digest},
            )
        answer = await http.get(path)
        assert (answer.status_code, answer.content) == (200, content)
        assert answer.headers["x-content-sha256"] == digest


async def test_cancel_then_asked_once_and_the_engine_rung(world, http):
    spec_id = await add_spec(world, 1)
    for _ in range(2):
        assert (await http.post(f"/api/v1/specs/{spec_id}/cancel")).status_code == 202
    spec = await get_row(world, Spec, spec_id)
    assert (spec.cancel_reason, spec.cancel_asked_at, spec.version) == ("operator", world.clock.now, 2)
    await world.settled()
    assert world.doorbell.rings[0] == (JobName.ADVANCE, spec_id, 2)
    ended = await add_spec(world, 2, state=SpecState.COMPLETED)
    assert (await http.post(f"/api/v1/specs/{ended}/cancel")).status_code == 409
    assert (await http.post("/api/v1/specs/none/cancel")).status_code == 404


async def test_execute_then_queued_for_a_worker(world, http):
    spec_id = await add_spec(world, 1, state=SpecState.FAILED, concluded_at=T0, ended_at=T0)
    async with world.database.write() as session:
        (await session.get(Task, "task_00000000000000000001")).state = TaskState.FAILED
    answer = await http.post(f"/api/v1/specs/{spec_id}/execute")
    assert answer.status_code == 202
    assert answer.json() == {
        "spec_id": spec_id,
        "status": "queued",
        "current_phase": None,
        "sandbox_id": None,
        "message": "queued; a worker starts it in a sandbox",
    }
    assert (await get_row(world, Spec, spec_id)).state is SpecState.QUEUED
    assert (await http.post(f"/api/v1/specs/{spec_id}/execute", json={})).status_code == 409


async def test_execute_impossible_then_404_409_or_422(world, http):
    for number, state in enumerate(
        (SpecState.IMPLEMENTING, SpecState.AWAITING_APPROVAL, SpecState.PAUSED, SpecState.COMPLETED), 1
    ):
        spec_id = await add_spec(world, number, state=state)
        assert (await http.post(f"/api/v1/specs/{spec_id}/execute")).status_code == 409
    failed = await add_spec(world, 9, state=SpecState.FAILED, concluded_at=T0)
    path = f"/api/v1/specs/{failed}/execute"
    assert (await http.post("/api/v1/specs/none/execute")).status_code == 404
    for body in (
        {"resume_from_phase": "dream"},
        {"resume_from_phase": "design"},
        {"resume_from_phase": 1},
        {"x": 1},
    ):
        assert (await http.post(path, json=body)).status_code == 422
    await add_spec(world, 10, issue_number=9, trigger_key="again", state=SpecState.IMPLEMENTING)
    assert (await http.post(path)).status_code == 409


async def test_execute_from_a_phase_then_it_and_all_after_it_are_done_anew(world, http):
    spec_id = await add_spec(world, 1, state=SpecState.FAILED, flow=Flow.FULL, concluded_at=T0, ended_at=T0)
    async with world.database.write() as session:
        for row in await record_phases(session, spec_id, T0):
            done = row.name in {"explore", "requirements", "design"}
            row.state = PhaseState.COMPLETED if done else PhaseState.FAILED
    path = f"/api/v1/specs/{spec_id}/execute"
    later = await http.post(path, json={"resume_from_phase": "sync"})
    assert later.status_code == 422
    assert "explore, requirements, design, tasks" in later.json()["detail"]
    answer = await http.post(path, json={"resume_from_phase": "design"})
    assert answer.status_code == 202
    assert answer.json()["current_phase"] == "design"
    shown = (await http.get(f"/api/v1/specs/{spec_id}")).json()["phases"]
    assert [row["state"] for row in shown] == ["completed", "completed", "pending", "pending", "pending"]
