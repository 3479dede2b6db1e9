"""What goes wrong on purpose, and waiting at gates, over plain HTTP."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from simulators.model import ModelSimulator
from tests.simulators.model.conftest import DEADLINE_S, KEY, Chat, text_in, until


@pytest.fixture
async def http(url: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client over a real socket, which can be cut and left."""
    async with httpx.AsyncClient(base_url=url, headers={"x-api-key": KEY}, timeout=DEADLINE_S) as client:
        yield client


def broken(model: ModelSimulator, **fault: Any) -> None:
    model.define("broken", {"turns": [[{"text": "Well, " * 40, "fault": fault}]]})


def asking(http: httpx.AsyncClient) -> Chat:
    return Chat(http, "broken", messages=[{"role": "user", "content": "go"}])


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ],
)
async def test_status_strikes_so_many_times_and_then_the_step_is_served(
    http: httpx.AsyncClient, model: ModelSimulator, status: int, kind: str
) -> None:
    broken(model, kind="status", status=status, times=2, retry_after_s=3)
    answers = [await asking(http).ask() for _ in range(3)]
    assert [answer.status_code for answer in answers] == [status, status, 200]
    assert answers[0].json()["error"]["type"] == kind
    assert answers[0].headers["retry-after"] == "3"


async def test_fault_counts_for_each_session_of_its_own(
    http: httpx.AsyncClient, model: ModelSimulator
) -> None:
    broken(model, kind="status")
    for session in ("a", "b"):
        chat = Chat(http, "broken", session=session, messages=[{"role": "user", "content": "go"}])
        assert [(await chat.ask()).status_code for _ in range(2)] == [529, 200]


@pytest.mark.parametrize("stream", [True, False])
async def test_cut_ends_in_the_middle(http: httpx.AsyncClient, model: ModelSimulator, stream: bool) -> None:
    broken(model, kind="cut")
    with pytest.raises(httpx.RemoteProtocolError):
        await asking(http).ask(stream=stream)
    assert model.requests()[0]["outcome"] == "cut"
    assert (await asking(http).ask(stream=stream)).status_code == 200


@pytest.mark.parametrize(("kind", "some"), [("stall", True), ("no_bytes", False)])
async def test_silence_lasts_until_the_client_leaves(
    http: httpx.AsyncClient, model: ModelSimulator, kind: str, some: bool
) -> None:
    broken(model, kind=kind)
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "go"}]}
    received = b""

    async def receive() -> None:
        nonlocal received
        async with http.stream("POST", "/s/broken/v1/messages", json=body, timeout=0.3) as response:
            async for piece in response.aiter_bytes():
                received += piece

    with pytest.raises(httpx.ReadTimeout):
        await receive()
    assert bool(received) is some
    assert b"message_stop" not in received
    await until(lambda: model.log.select()[0].outcome == "disconnected")


async def test_silence_ends_when_its_gate_is_opened(http: httpx.AsyncClient, model: ModelSimulator) -> None:
    broken(model, kind="no_bytes", gate="enough")
    asked = asyncio.create_task(asking(http).ask(stream=True))
    await until(lambda: any(gate["waiting"] for gate in model.gates.to_json()))
    await http.post("/_sim/gates/enough/open")
    with pytest.raises(httpx.RemoteProtocolError):
        await asked


async def test_malformed_empty_and_html_answers_have_status_200(
    http: httpx.AsyncClient, model: ModelSimulator
) -> None:
    for kind in ("malformed", "empty", "html"):
        broken(model, kind=kind)
        response = await asking(http).ask(stream=True)
        assert response.status_code == 200
        assert "message_stop" not in response.text
    assert response.headers["content-type"].startswith("text/html")


async def test_stop_reasons_and_usage_can_be_wrong(http: httpx.AsyncClient, model: ModelSimulator) -> None:
    for kind in ("max_tokens", "refusal"):
        broken(model, kind=kind)
        assert (await asking(http).ask()).json()["stop_reason"] == kind
    broken(model, kind="missing_usage")
    assert "usage" not in (await asking(http).ask()).json()
    broken(model, kind="absurd_usage")
    assert (await asking(http).ask()).json()["usage"]["output_tokens"] == 10**12


async def test_step_overrides_single_usage_numbers(http: httpx.AsyncClient, model: ModelSimulator) -> None:
    model.define("usage", {"turns": [[{"text": "x", "usage": {"output_tokens": 77}}]]})
    usage = (await Chat(http, "usage").say("go"))["usage"]
    assert usage["output_tokens"] == 77
    assert usage["input_tokens"] > 1


async def test_common_fault_strikes_what_it_names_until_it_is_cleared(http: httpx.AsyncClient) -> None:
    fault = {"kind": "status", "status": 500, "times": None}
    rule = {"fault": fault, "scenario": "no_changes", "model": "^some", "body": "gr.en"}
    assert (await http.post("/_sim/faults", json=rule)).status_code == 204
    assert (await http.post("/_sim/faults", json={"fault": {"kind": "odd"}})).status_code == 422
    green = Chat(http, "no_changes", messages=[{"role": "user", "content": "green"}])
    blue = Chat(http, "no_changes", messages=[{"role": "user", "content": "blue"}])
    assert [(await chat.ask()).status_code for chat in (green, green, blue)] == [500, 500, 200]
    assert len((await http.get("/_sim/faults")).json()["faults"]) == 1
    await http.delete("/_sim/faults")
    assert (await green.ask()).status_code == 200


async def test_exhausted_credit_refuses_everything_after_two_good_steps(http: httpx.AsyncClient) -> None:
    chat = Chat(http, "credit_exhausted")
    await chat.say("go")
    await chat.report("ok")
    chat.messages.append(
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "ok"}]}
    )
    for _ in range(2):
        response = await chat.ask()
        assert response.status_code == 400
        assert response.json()["error"] == {"type": "invalid_request_error", "message": "credit exhausted"}


@pytest.mark.parametrize("at", ["start", "middle"])
async def test_gate_holds_the_answer_with_pings_until_it_is_opened(
    http: httpx.AsyncClient, model: ModelSimulator, at: str
) -> None:
    model.define("gated", {"turns": [[{"text": "Free at last.", "gate": "g", "gate_at": at}]]})
    chat = Chat(http, "gated", messages=[{"role": "user", "content": "go"}])
    asked = asyncio.create_task(chat.ask(stream=True))
    await until(lambda: any(gate["waiting"] == [1] for gate in model.gates.to_json()))
    assert (await http.get("/_sim/gates")).json() == {"gates": [{"name": "g", "open": False, "waiting": [1]}]}
    assert model.requests()[0]["outcome"] is None
    assert (await http.post("/_sim/gates/g/open")).status_code == 204
    assert "at last." in (await asked).text
    assert (await chat.ask()).status_code == 200
    assert (await http.post("/_sim/gates/g/close")).status_code == 204
    assert (await http.post("/_sim/gates/g/burn")).status_code == 404
    assert model.gates.to_json() == [{"name": "g", "open": False, "waiting": []}]


async def test_client_that_leaves_a_gate_is_forgotten(http: httpx.AsyncClient, model: ModelSimulator) -> None:
    model.define("gated", {"turns": [[{"text": "x", "gate": "g"}]]})
    chat = Chat(http, "gated", messages=[{"role": "user", "content": "go"}])
    asked = asyncio.create_task(chat.ask())
    await until(lambda: any(gate["waiting"] for gate in model.gates.to_json()))
    asked.cancel()
    await until(lambda: not any(gate["waiting"] for gate in model.gates.to_json()))
    model.gates.open("g")
    assert text_in((await chat.ask()).json()) == "x"


async def test_delay_holds_the_answer(http: httpx.AsyncClient, model: ModelSimulator) -> None:
    model.define("slow", {"turns": [[{"text": "x", "delay_s": 0.2}]]})
    await Chat(http, "slow").say("go")
    entry = model.requests()[0]
    assert entry["ended_at_monotonic_s"] - entry["at_monotonic_s"] >= 0.2
