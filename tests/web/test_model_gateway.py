"""What passes the model gateway, and what does not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.db.models import Sandbox
from app.domain.ids import new_sandbox_id
from app.domain.states import SandboxState
from app.web.ports import Limits
from tests.web.conftest import add_sandbox, bearer
from tests.web.gateway import ASK, END, START, TEXT, Gateway, plain, running, sse


@pytest.fixture
async def gateway(make_world) -> AsyncIterator[Gateway]:
    async with running(make_world) as one:
        yield one


async def test_whole_answer_then_passed_unchanged_and_settled_by_its_usage(gateway):
    gateway.upstream.answer = plain(input_tokens=1000, output_tokens=500, cache_read_input_tokens=10_000)
    answer = await gateway.ask()
    assert (answer.status_code, answer.content) == (200, gateway.upstream.answer)
    assert answer.headers["request-id"] == "req_1"
    assert "anthropic-organization-id" not in answer.headers
    row = await gateway.settled()
    assert row.spent_usd == pytest.approx((1000 * 4 + 500 * 20 + 10_000 * 0.4) / 1e6)
    assert row.reserved_usd == 0
    (call,) = await gateway.calls()
    assert (call.status, call.input_tokens, call.output_tokens, call.cache_tokens) == (200, 1000, 500, 10_000)
    assert call.reserved_usd > call.cost_usd


async def test_stream_then_each_byte_passes_as_it_comes(gateway):
    gate = asyncio.Event()

    async def pieces():
        yield sse(START)
        await gate.wait()
        yield sse(TEXT, END)

    gateway.upstream.stream = pieces
    async with gateway.http.stream(
        "POST",
        gateway.base + "/v1/messages",
        json={**ASK, "stream": True},
        headers={"x-api-key": gateway.token},
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        chunks = answer.aiter_raw()
        got = await anext(chunks)
        assert got == sse(START)
        gate.set()
        async for chunk in chunks:
            got += chunk
    assert got == sse(START, TEXT, END)
    row = await gateway.settled()
    assert row.spent_usd == pytest.approx((1000 * 4 + 500 * 20) / 1e6)


async def test_request_forwarded_then_the_key_is_swapped_and_nothing_of_the_sandbox_passes(gateway):
    await gateway.ask(
        None,
        "/v1/messages?beta=true&other=1",
        **{
            "Authorization": f"Bearer {gateway.token}",
            "anthropic-version": "2023-06-01",
            "anthropic-beta": "context-management-2025-06-27, mcp-client-2025-04-04,files-api-2025-04-14",
            "x-claude-code-agent-id": "a1",
            "Cookie": "c=1",
            "X-Forwarded-For": "1.2.3.4",
            "Proxy-Authorization": "x",
        },
    )
    ((path, headers, body),) = gateway.upstream.seen
    assert path == "/prefix/v1/messages?beta=true"
    assert body == ASK
    assert headers["x-api-key"] == "real-model-key"
    assert headers["anthropic-beta"] == "context-management-2025-06-27"
    assert headers["x-claude-code-agent-id"] == "a1"
    assert not {"authorization", "cookie", "x-forwarded-for", "proxy-authorization"} & set(headers)
    assert gateway.token not in json.dumps(headers)


async def test_key_and_bodies_never_reach_the_log(gateway, log_output):
    gateway.upstream.answer = plain(input_tokens=1, output_tokens=1)
    await gateway.ask({**ASK, "system": "canary-text"})
    await gateway.settled()
    output = log_output.getvalue()
    assert "model_call.settled" in output
    for secret in ("real-model-key", "canary-text", gateway.token):
        assert secret not in output


FORBIDDEN: list[dict[str, Any]] = [
    {"mcp_servers": [{"type": "url", "url": "https://x.example"}]},
    {"container": "c_1"},
    {"container": {"skills": []}},
    {"speed": "fast"},
    {"service_tier": "auto"},
    {"something_new": True},
    {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]},
    {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]},
    {"tools": [{"type": "computer_20250124", "name": "computer"}]},
    {"tools": [{"type": "mcp_toolset", "mcp_server_name": "x"}]},
    {"tools": [{"name": "x", "input_schema": {}, "allowed_callers": ["code_execution_20250825"]}]},
    {"tools": [{"type": ["custom"], "name": "x"}]},
    {"tools": {"name": "x"}},
    {"tools": ["bash"]},
    {
        "messages": [
            {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "http://x"}}]}
        ]
    },
    {
        "messages": [
            {
                "role": "user",
                "content": [{"type": "document", "source": {"type": "file", "file_id": "f"}}],
            }
        ]
    },
    {"messages": [{"role": "user", "content": [{"type": "container_upload", "file_id": "f"}]}]},
    {
        "messages": [
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t",
                        "content": [{"type": "image", "source": {"type": "url", "url": "http://x"}}],
                    }
                ],
            }
        ]
    },
    {"system": [{"type": "document", "source": {"type": "url", "url": "http://x"}}]},
    {"model": ""},
    {"model": None},
    {"model": "x" * 201},
    {"max_tokens": 0},
    {"max_tokens": "many"},
    {"max_tokens": True},
]


async def test_request_asks_for_more_than_allowed_then_403_and_nothing_forwarded(gateway):
    for change in FORBIDDEN:
        answer = await gateway.ask({**ASK, **change})
        assert answer.status_code == 403, change
        assert answer.json()["type"] == "error"
        assert answer.json()["error"]["type"] == "permission_error"
    assert gateway.upstream.seen == []
    assert (await gateway.row()).reserved_usd == 0


async def test_body_not_json_then_403(gateway):
    for body in [b"", b"[]", b"{", b'{"model": NaN}', b"\xff", b"[" * 100_000]:
        assert (await gateway.ask(body)).status_code == 403


async def test_ordinary_request_of_the_agent_then_passes(gateway):
    gateway.upstream.answer = plain(input_tokens=1, output_tokens=1)
    body = {
        **ASK,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "Bash", "input_schema": {"type": "object"}}, {"type": "custom", "name": "Read"}],
        "messages": [
            {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": "aa"}}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": "t", "name": "Bash", "input": {"source": {"type": "url"}}}
                ],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t", "content": "ok \ud83c"}],
            },
            {"role": "system", "content": "environment"},
        ],
        "metadata": {"user_id": "{}"},
        "thinking": {"type": "adaptive"},
        "context_management": {"edits": []},
        "output_config": {"effort": "high"},
        "stream": False,
    }
    assert (await gateway.ask(body)).status_code == 200
    assert gateway.upstream.seen[0][2] == body


async def test_repeated_names_then_upstream_reads_what_was_checked(gateway):
    await gateway.ask(b'{"mcp_servers": [], "model": "m", "max_tokens": 5, "max_tokens": 6, "messages": []}')
    assert gateway.upstream.seen[0][2] == {"model": "m", "max_tokens": 6, "messages": []}


@pytest.mark.parametrize(
    ("sandbox_model", "models", "asked", "status"),
    [
        (None, "", "anything", 200),
        (None, "claude-a-1 claude-b-2", "claude-b-2", 200),
        (None, "claude-a-1", "claude-b-2", 403),
        (None, "claude-a-1", "claude-a-1-20260101", 200),
        (None, "claude-a-1", "claude-a-10", 403),
        (None, "sonnet", "claude-sonnet-5-5", 200),
        (None, "sonnet", "claude-opus-5-5", 403),
        ("claude-x", "claude-a-1", "claude-a-1", 403),
        ("claude-x", "claude-a-1", "claude-x", 200),
    ],
)
async def test_model_outside_the_allowed_ones_then_403(make_world, sandbox_model, models, asked, status):
    async with running(make_world, sandbox={"model": sandbox_model}, models=models) as gateway:
        assert (await gateway.ask({**ASK, "model": asked})).status_code == status


async def test_token_missing_unknown_foreign_or_ended_then_401_401_403_403_in_the_api_s_shape(gateway):
    _, foreign = await add_sandbox(gateway.world, 2)
    for headers, status, kind in (
        ({"x-nothing": "1"}, 401, "authentication_error"),
        ({"x-api-key": "unknown"}, 401, "authentication_error"),
        ({"x-api-key": foreign}, 403, "permission_error"),
        (bearer(foreign), 403, "permission_error"),
    ):
        answer = await gateway.ask(**headers)
        assert (answer.status_code, answer.json()["error"]["type"]) == (status, kind)
    async with gateway.world.database.write() as session:
        (await session.get(Sandbox, gateway.sandbox_id)).state = SandboxState.FAILED
    assert (await gateway.ask()).status_code == 403
    assert gateway.upstream.seen == []


async def test_other_paths_then_404_for_the_sandbox_and_401_for_strangers(gateway):
    for path in [
        "/v1/models",
        "/v1/files",
        "/v1/messages/batches",
        "/",
        "/v1/messages/../files",
        "/v1/complete",
    ]:
        answer = await gateway.ask({}, path)
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")
        assert (await gateway.ask({}, path, **{"x-nothing": "1"})).status_code == 401
    assert gateway.upstream.seen == []


async def test_no_key_configured_then_403_that_says_what_to_do(make_world):
    async with running(make_world) as gateway:
        gateway.world.parts.settings = gateway.world.settings.model_copy(update={"anthropic_api_key": None})
        answer = await gateway.ask()
        assert answer.status_code == 403
        assert "ANTHROPIC_API_KEY" in answer.json()["error"]["message"]


async def test_too_large_then_413(make_world):
    async with running(make_world, Limits(model_request_bytes=1000)) as gateway:
        answer = await gateway.ask({**ASK, "system": "x" * 2000})
        assert (answer.status_code, answer.json()["error"]["type"]) == (413, "request_too_large")


async def test_storage_away_then_503_of_a_kind_that_the_agent_goes_on_trying(make_world):
    world = make_world()  # no tables
    path = f"/api/v1/sandboxes/{new_sandbox_id()}/model/v1/messages"
    async with world.http() as http:
        answer = await http.post(path, json=ASK, headers={"x-api-key": f"iws_{'0' * 64}"})
    assert answer.status_code == 503
    assert answer.json()["error"]["type"] == "api_error", "after three of `overloaded_error` it gives up"
