"""What calls through the model gateway cost, whatever happens to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.responses import Response
from starlette.routing import Route

from app.web.ports import Limits
from tests.web.conftest import until
from tests.web.gateway import ASK, END, START, TEXT, Gateway, plain, running, sse


@pytest.fixture
async def gateway(make_world) -> AsyncIterator[Gateway]:
    async with running(make_world) as one:
        yield one


# ------------------------------------------------------------ money


async def test_budget_spent_then_403_once_and_nothing_forwarded(make_world):
    async with running(make_world, sandbox={"budget_usd": 1.0, "spent_usd": 0.9999}) as gateway:
        answer = await gateway.ask({**ASK, "max_tokens": 32_000})
        assert (answer.status_code, answer.json()["error"]["type"]) == (403, "permission_error")
        assert gateway.upstream.seen == []


async def test_max_tokens_beyond_the_budget_then_cut_and_thinking_along(make_world):
    async with running(make_world, sandbox={"budget_usd": 1.0}) as gateway:
        gateway.upstream.answer = plain(input_tokens=1, output_tokens=1)
        await gateway.ask(
            {**ASK, "max_tokens": 128_000, "thinking": {"type": "enabled", "budget_tokens": 100_000}}
        )
        sent = gateway.upstream.seen[0][2]
        assert 20_000 < sent["max_tokens"] <= 25_000
        assert 1024 <= sent["thinking"]["budget_tokens"] < sent["max_tokens"]


async def test_calls_side_by_side_then_none_starves_and_the_sum_stays_within_the_budget(make_world):
    async with running(make_world, sandbox={"budget_usd": 2.0}) as gateway:
        gate = asyncio.Event()

        async def pieces():
            await gate.wait()
            yield sse(START, END)

        gateway.upstream.stream = pieces
        asks = [asyncio.create_task(gateway.ask({**ASK, "max_tokens": 128_000})) for _ in range(4)]
        await until(lambda: len(gateway.upstream.seen) == 4)
        row = await gateway.row()
        assert 1.5 < row.reserved_usd <= 2.0
        gate.set()
        assert {answer.status_code for answer in await asyncio.gather(*asks)} == {200}
        row = await gateway.settled()
        assert row.reserved_usd == 0
        assert row.spent_usd == pytest.approx(4 * (1000 * 4 + 500 * 20) / 1e6)


async def test_last_dollar_asked_for_by_many_at_once_then_never_overdrawn(make_world):
    async with running(make_world, sandbox={"budget_usd": 0.2}) as gateway:
        gate = asyncio.Event()

        async def pieces():
            await gate.wait()
            yield sse(START, END)

        gateway.upstream.stream = pieces
        asks = [asyncio.create_task(gateway.ask({**ASK, "max_tokens": 128_000})) for _ in range(8)]
        await until(lambda: sum(ask.done() for ask in asks) + len(gateway.upstream.seen) == 8)
        assert (await gateway.row()).reserved_usd <= 0.2
        gate.set()
        codes = [answer.status_code for answer in await asyncio.gather(*asks)]
        assert set(codes) == {200, 403}


@pytest.mark.parametrize(
    "usage",
    [
        {},
        {"input_tokens": -5, "output_tokens": 1},
        {"input_tokens": 1, "output_tokens": 10**15},
        {"input_tokens": "1", "output_tokens": 2},
    ],
)
async def test_usage_missing_or_absurd_then_the_whole_reservation_is_spent(gateway, usage):
    gateway.upstream.answer = plain(**usage)
    await gateway.ask()
    row = await gateway.settled()
    (call,) = await gateway.calls()
    assert row.spent_usd == pytest.approx(call.reserved_usd)


async def test_client_leaves_midway_then_upstream_is_cut_and_the_call_settled(gateway):
    async def pieces():
        yield sse(START, TEXT)
        while True:
            await asyncio.sleep(0.02)
            yield b": ping\n\n"

    gateway.upstream.stream = pieces
    async with gateway.http.stream(
        "POST",
        gateway.base + "/v1/messages",
        json={**ASK, "stream": True},
        headers={"x-api-key": gateway.token},
    ) as answer:
        await anext(answer.aiter_raw())
    row = await gateway.settled()
    assert row.reserved_usd == 0
    (call,) = await gateway.calls()
    assert 1000 * 4 / 1e6 < row.spent_usd <= max(call.reserved_usd, 0.03)
    await until(lambda: gateway.upstream.closed == 1)
    assert not gateway.world.parts.calls._taken


async def test_client_leaves_before_the_first_byte_then_upstream_is_cut_and_the_call_settled(gateway):
    waiting = asyncio.Event()

    async def pieces():
        waiting.set()
        await asyncio.sleep(30)
        yield b""

    async def slow(request):
        gateway.upstream.seen.append(("", {}, None))
        await request.body()
        while not await request.is_disconnected():
            await asyncio.sleep(0.02)
        gateway.upstream.closed += 1
        return Response()

    gateway.upstream.app.router.routes[0] = Route("/{path:path}", slow, methods=["POST"])
    ask = asyncio.create_task(gateway.ask())
    await until(lambda: gateway.upstream.seen)
    ask.cancel()
    await asyncio.gather(ask, return_exceptions=True)
    await until(lambda: gateway.upstream.closed == 1)
    row = await gateway.settled()
    (call,) = await gateway.calls()
    assert 0 < row.spent_usd <= call.reserved_usd


async def test_upstream_breaks_off_midway_then_the_client_sees_it_and_the_call_is_settled(gateway):
    async def pieces():
        yield sse(START, TEXT)
        raise ConnectionResetError

    gateway.upstream.stream = pieces
    with pytest.raises(httpx.RemoteProtocolError):
        await gateway.ask({**ASK, "stream": True})
    row = await gateway.settled()
    assert row.spent_usd > 1000 * 4 / 1e6


async def test_upstream_error_then_passed_through_and_free(gateway):
    gateway.upstream.answer = b'{"type": "error", "error": {"type": "x", "message": "no"}}'
    gateway.upstream.headers["retry-after"] = "7"
    for status in [400, 404, 429, 500, 529]:
        gateway.upstream.status = status
        answer = await gateway.ask()
        assert (answer.status_code, answer.content) == (status, gateway.upstream.answer)
        assert answer.headers["retry-after"] == "7"
    assert (await gateway.settled()).spent_usd == 0


async def test_upstream_refuses_our_key_then_403_so_that_nobody_tries_for_minutes(gateway):
    gateway.upstream.status = 401
    answer = await gateway.ask()
    assert (answer.status_code, answer.json()["error"]["type"]) == (403, "permission_error")


async def test_upstream_away_then_502_and_free(gateway):
    gateway.world.parts.settings = gateway.world.settings.model_copy(
        update={"anthropic_base_url": "http://127.0.0.1:1"}
    )
    answer = await gateway.ask()
    assert (answer.status_code, answer.json()["error"]["type"]) == (502, "api_error")
    assert (await gateway.settled()).spent_usd == 0


async def test_upstream_silent_then_504_and_charged_for_its_time(make_world):
    async with running(make_world, Limits(upstream_read_s=0.2)) as gateway:

        async def slow(request):
            await asyncio.sleep(1)
            return Response()

        gateway.upstream.app.router.routes[0] = Route("/{path:path}", slow, methods=["POST"])
        assert (await gateway.ask()).status_code == 504
        assert (await gateway.settled()).spent_usd > 0


async def test_count_tokens_then_passed_and_free(gateway):
    gateway.upstream.answer = b'{"input_tokens": 5}'
    ask = {"model": "m", "messages": []}
    answer = await gateway.ask(ask, "/v1/messages/count_tokens?beta=true")
    assert (answer.status_code, answer.json()) == (200, {"input_tokens": 5})
    assert gateway.upstream.seen[0][0] == "/prefix/v1/messages/count_tokens?beta=true"
    assert await gateway.calls() == []
    assert (await gateway.ask({**ask, "mcp_servers": [1]}, "/v1/messages/count_tokens")).status_code == 403


async def test_too_many_calls_at_once_then_429(make_world):
    async with running(make_world, Limits(calls_per_sandbox=0)) as gateway:
        answer = await gateway.ask()
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
