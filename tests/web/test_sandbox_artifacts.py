"""Uploads: whole or not at all."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from datetime import timedelta

import httpx
import pytest
from sqlalchemy import func, select

from app.db.models import Artifact, ArtifactChunk, Sandbox, Spec
from app.domain.states import SandboxState
from app.queue.jobs import JobName
from app.web import sandbox_artifacts
from app.web.ports import Limits
from tests.web.conftest import START_SHA, add_sandbox, bearer, create_tables, get_row, served, until


def hashed(content: bytes) -> dict[str, str]:
    return {"X-Content-SHA256": hashlib.sha256(content).hexdigest()}


async def put(world, sandbox, name, content, headers=None):
    async with world.http(**bearer(sandbox[1])) as http:
        return await http.put(
            f"/api/v1/sandboxes/{sandbox[0]}/artifacts/{name}",
            content=content,
            headers=hashed(content) if headers is None else headers,
        )


async def contents(world, sandbox_id) -> dict[str, bytes]:
    async with world.database.read() as session:
        found = {}
        rows = await session.scalars(
            select(Artifact).where(Artifact.sandbox_id == sandbox_id, Artifact.current)
        )
        for row in rows.all():
            chunks = await session.scalars(
                select(ArtifactChunk.data)
                .where(ArtifactChunk.artifact_id == row.id)
                .order_by(ArtifactChunk.position)
            )
            found[row.name] = b"".join(chunks)
        return found


async def count_rows(world, table) -> int:
    async with world.database.read() as session:
        return await session.scalar(select(func.count()).select_from(table)) or 0


def manifest(sandbox_id: str, round_: int = 1, **values) -> bytes:
    fields = {
        "sandbox_id": sandbox_id,
        "round": round_,
        "start_sha": START_SHA,
        "head_sha": START_SHA,
        "status": "completed",
        "session_id": "s-1",
        "finished_at": "2026-03-01T12:00:00Z",
    }
    return json.dumps({**fields, **values}).encode()


async def test_upload_then_the_same_bytes_come_back(world):
    sandbox = await add_sandbox(world)
    for size in [0, 1, 999_999, 1_000_000, 1_000_001, 2_500_000]:
        content = (bytes(range(256)) * (size // 256 + 1))[:size]
        assert (await put(world, sandbox, "result.bundle", content)).status_code == 204
        assert await contents(world, sandbox[0]) == {"result.bundle": content}


async def test_upload_again_then_replaced_and_the_old_one_is_gone(world):
    sandbox = await add_sandbox(world)
    await put(world, sandbox, "result.bundle", b"old" * 500_000)
    await put(world, sandbox, "result.bundle", b"new")
    assert await contents(world, sandbox[0]) == {"result.bundle": b"new"}
    assert await count_rows(world, Artifact) == 1
    assert await count_rows(world, ArtifactChunk) == 1


async def test_wrong_hash_then_422_and_the_old_one_stays(world):
    sandbox = await add_sandbox(world)
    await put(world, sandbox, "result.bundle", b"good")
    for headers in (hashed(b"other"), {}, {"X-Content-SHA256": "abc"}):
        assert (await put(world, sandbox, "result.bundle", b"bad", headers)).status_code == 422
    assert await contents(world, sandbox[0]) == {"result.bundle": b"good"}
    assert await count_rows(world, Artifact) == 1


async def test_unknown_name_then_422(world):
    assert (await put(world, await add_sandbox(world), "shell.sh", b"x")).status_code == 422


async def test_too_large_by_declaration_or_while_streaming_then_413_and_nothing_stays(world):
    sandbox_id, token = await add_sandbox(world)
    big = sandbox_artifacts.MAX_MANIFEST_BYTES + 1

    async def pieces():
        for _ in range(30):
            yield b"x" * 100_000

    async with served(world.app) as url, httpx.AsyncClient(headers=bearer(token)) as http:
        path = f"{url}/api/v1/sandboxes/{sandbox_id}/artifacts/manifest.json"
        declared = await http.put(path, content=b"x" * big, headers=hashed(b""))
        streamed = await http.put(path, content=pieces(), headers=hashed(b""))
    assert (declared.status_code, streamed.status_code) == (413, 413)
    assert await count_rows(world, Artifact) == 0
    assert await count_rows(world, ArtifactChunk) == 0


async def test_client_leaves_midway_then_nothing_stays(world):
    sandbox_id, token = await add_sandbox(world)
    async with served(world.app) as url:
        port = int(url.rsplit(":", 1)[1])
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        head = (
            f"PUT /api/v1/sandboxes/{sandbox_id}/artifacts/result.bundle HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {token}\r\nX-Content-SHA256: {'0' * 64}\r\nContent-Length: 3000000\r\n\r\n"
        )
        writer.write(head.encode() + b"x" * 1_500_000)
        await writer.drain()

        async def chunk_stored():
            return await count_rows(world, ArtifactChunk) == 1

        await until(chunk_stored)
        writer.transport.abort()

        async def gone():
            return await count_rows(world, Artifact) == 0

        await until(gone)


async def test_upload_stalls_then_408(make_world):
    world = make_world(Limits(chunk_s=0.1))
    await create_tables(world)
    sandbox_id, token = await add_sandbox(world)
    async with served(world.app) as url:
        port = int(url.rsplit(":", 1)[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = (
            f"PUT /api/v1/sandboxes/{sandbox_id}/artifacts/result.bundle HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {token}\r\nX-Content-SHA256: {'0' * 64}\r\nContent-Length: 9\r\n\r\nx"
        )
        writer.write(head.encode())
        async with asyncio.timeout(2):
            assert b" 408 " in await reader.readline()
        writer.close()


async def test_sandbox_ends_during_an_upload_then_403_and_nothing_stays(world):
    sandbox_id, token = await add_sandbox(world)

    async def pieces():
        yield b"x" * 1_000_000
        async with world.database.write() as session:
            (await session.get(Sandbox, sandbox_id)).state = SandboxState.COMPLETED
        yield b"y"

    async with served(world.app) as url, httpx.AsyncClient(headers=bearer(token)) as http:
        path = f"{url}/api/v1/sandboxes/{sandbox_id}/artifacts/result.bundle"
        answer = await http.put(path, content=pieces(), headers=hashed(b"x" * 1_000_000 + b"y"))
    assert answer.status_code == 403
    assert await count_rows(world, Artifact) == 0


async def test_manifest_then_its_round_is_noted_and_the_engine_rung(world):
    sandbox_id, _ = sandbox = await add_sandbox(world)
    assert (await put(world, sandbox, "manifest.json", manifest(sandbox_id, 2))).status_code == 204
    row = await get_row(world, Sandbox, sandbox_id)
    assert (row.manifest_round, row.session_id, row.state) == (2, "s-1", SandboxState.RUNNING)
    await put(world, sandbox, "manifest.json", manifest(sandbox_id, 1))
    assert (await get_row(world, Sandbox, sandbox_id)).manifest_round == 2
    await world.settled()
    assert (await get_row(world, Spec, row.spec_id)).version == 3
    assert world.doorbell.rings == [(JobName.ADVANCE, row.spec_id, 2), (JobName.ADVANCE, row.spec_id, 3)]


async def test_checkpoint_rings_and_other_bundles_do_not(world):
    sandbox = await add_sandbox(world)
    for name in ("result.bundle", "transcript.tar.gz"):
        await put(world, sandbox, name, b"x")
    await world.settled()
    assert world.doorbell.rings == []
    await put(world, sandbox, "checkpoint.bundle", b"x")
    await world.settled()
    assert len(world.doorbell.rings) == 1


async def test_manifest_malformed_then_422(world):
    sandbox_id, _ = sandbox = await add_sandbox(world)
    for content in (
        b"",
        b"[]",
        b"[" * 90_000,
        b"\xff",
        manifest("sbx_other"),
        manifest(sandbox_id, 0),
        manifest(sandbox_id, 10**9),
        manifest(sandbox_id, head_sha="main"),
        manifest(sandbox_id, status="great"),
    ):
        assert (await put(world, sandbox, "manifest.json", content)).status_code == 422
    assert await contents(world, sandbox_id) == {}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("round", 2**31), ("round", 10**400), ("version", 10**400), ("version", -1),
        ("turns", -1), ("turns", 10**7), ("turns", 10**400), ("turns", 1e300), ("turns", 1.5),
        ("cost_usd", -0.01), ("cost_usd", math.nan), ("cost_usd", math.inf), ("cost_usd", -math.inf), ("cost_usd", 1e308),
        ("cost_usd", 10**400),
        ("test", {"command": "true", "exit_code": 2**31}), ("test", {"command": "true", "exit_code": -(10**400)}),
        ("test", {"command": "true", "seconds": math.nan}), ("test", {"command": "true", "seconds": -1}),
        ("test", {"command": "true", "seconds": 1e308}), ("answers", [{"thread": 2**63, "answer": "Done."}]),
    ],
)  # fmt: skip
async def test_manifest_with_a_number_that_can_not_be_then_422_that_names_it_and_nothing_counts(
    world, field, value
):
    sandbox_id, _ = sandbox = await add_sandbox(world)
    answer = await put(world, sandbox, "manifest.json", manifest(sandbox_id, **{field: value}))
    assert answer.status_code == 422
    assert [one["loc"][0] for one in answer.json()["errors"]] == [field]
    assert await contents(world, sandbox_id) == {}
    row = await get_row(world, Sandbox, sandbox_id)
    assert (row.manifest_round, row.turns, row.spent_usd) == (0, 0, 0)


async def test_manifest_with_the_largest_numbers_then_taken(world):
    sandbox_id, _ = sandbox = await add_sandbox(world)
    test = {"command": "true", "exit_code": -(2**31), "seconds": 1e6}
    largest = manifest(sandbox_id, 10**6, turns=10**6, cost_usd=1e6, test=test)
    assert (await put(world, sandbox, "manifest.json", largest)).status_code == 204
    assert (await get_row(world, Sandbox, sandbox_id)).manifest_round == 10**6


async def test_upload_left_behind_by_a_dead_process_then_removed_by_the_next(world):
    sandbox = await add_sandbox(world)
    async with world.database.write() as session:
        session.add(
            Artifact(
                id="art_left",
                sandbox_id=sandbox[0],
                name="result.bundle",
                sha256="0" * 64,
                created_at=world.clock.now - timedelta(hours=1),
            )
        )
    await put(world, sandbox, "result.bundle", b"x")
    assert await count_rows(world, Artifact) == 1


async def test_too_many_bytes_then_429(make_world):
    world = make_world(Limits(upload_bytes_per_s=1, upload_bytes_burst=10))
    await create_tables(world)
    sandbox = await add_sandbox(world)
    assert (await put(world, sandbox, "result.bundle", b"x" * 50)).status_code == 204
    assert (await put(world, sandbox, "result.bundle", b"x")).status_code == 429


async def test_too_many_bytes_of_bodies_that_do_not_say_their_length_then_429(make_world):
    world = make_world(Limits(upload_bytes_per_s=1, upload_bytes_burst=10))
    await create_tables(world)
    sandbox = await add_sandbox(world)

    async def pieces():
        yield b"x" * 50

    headers = hashed(b"x" * 50)
    assert (await put(world, sandbox, "result.bundle", pieces(), headers)).status_code == 204
    assert (await put(world, sandbox, "result.bundle", pieces(), headers)).status_code == 429
