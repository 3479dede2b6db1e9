"""The Messages API's routes over plain HTTP."""

import json

import httpx

from simulators.model import ModelSimulator
from tests.simulators.model.conftest import KEY, Chat, text_in


async def test_wrong_or_missing_key_is_refused_in_the_apis_shape(url: str) -> None:
    async with httpx.AsyncClient(base_url=url) as stranger:
        for headers in ({}, {"x-api-key": "wrong"}, {"authorization": "Bearer wrong"}):
            response = await stranger.post("/v1/messages", json={}, headers=headers)
            assert response.status_code == 401
            assert response.json()["error"]["type"] == "authentication_error"


async def test_bearer_key_is_as_good_and_the_log_keeps_fingerprints_only(
    url: str, model: ModelSimulator
) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "scenario: no_changes"}]}
    async with httpx.AsyncClient(base_url=url) as client:
        given = {"authorization": f"Bearer {KEY}"}
        response = await client.post("/v1/messages", json=body, headers=given)
        shown = (await client.get("/_sim/requests")).text
    assert response.status_code == 200
    assert KEY not in shown
    (entry,) = json.loads(shown)["requests"]
    assert entry["auth"]["scheme"] == "bearer"
    assert len(entry["auth"]["fingerprint"]) == 12
    assert entry["body"] == body
    assert (entry["scenario"], entry["step"], entry["outcome"]) == ("no_changes", "t0s0", "complete")


async def test_unknown_paths_methods_and_scenarios_are_404_in_the_apis_shape(http: httpx.AsyncClient) -> None:
    for method, path in (("GET", "/v1/messages"), ("POST", "/v1/complete"), ("POST", "/s/x/v1/models")):
        response = await http.request(method, path)
        assert (response.status_code, response.json()["error"]["type"]) == (404, "not_found_error")
    unknown = Chat(http, "no-such-scenario", messages=[{"role": "user", "content": "hi"}])
    assert (await unknown.ask()).status_code == 404


async def test_body_that_is_no_request_is_400(http: httpx.AsyncClient) -> None:
    for content in (b"", b"[]", b"\xff", b'{"messages": []}', b'{"messages": "x"}'):
        response = await http.post("/v1/messages", content=content)
        assert (response.status_code, response.json()["error"]["type"]) == (400, "invalid_request_error")


async def test_odd_messages_are_taken_without_a_crash(http: httpx.AsyncClient) -> None:
    for messages in (
        [None],
        [{"role": "user"}],
        [{"content": [None, {"type": "image"}]}],
        [{"role": 1, "content": 2}],
    ):
        response = await http.post("/v1/messages", json={"model": "m", "messages": messages})
        assert response.status_code == 200


async def test_stream_holds_the_same_answer_as_the_whole_message(http: httpx.AsyncClient) -> None:
    chat = Chat(http, "binomial")
    whole = await chat.say("Begin.")
    chat.messages.pop()
    response = await chat.ask(stream=True)
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: ")]
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["message_start", "ping"]
    assert kinds[-2:] == ["message_delta", "message_stop"]
    text, command = "", ""
    for event in events:
        text += event.get("delta", {}).get("text", "")
        command += event.get("delta", {}).get("partial_json", "")
    assert text == text_in(whole)
    assert json.loads(command) == whole["content"][1]["input"]
    assert events[-2]["delta"]["stop_reason"] == whole["stop_reason"] == "tool_use"


async def test_usage_grows_with_the_conversation_and_comes_from_the_cache(http: httpx.AsyncClient) -> None:
    chat = Chat(http, "binomial")
    first = (await chat.say("Begin."))["usage"]
    second = (await chat.report("x" * 4000))["usage"]
    assert first["cache_creation_input_tokens"] > 0
    assert first["cache_read_input_tokens"] == 0
    assert second["cache_read_input_tokens"] > first["cache_creation_input_tokens"]
    assert 1000 < second["input_tokens"] < 1200


async def test_count_tokens_counts_by_size(http: httpx.AsyncClient) -> None:
    counts = []
    for size in (400, 4000):
        body = {"model": "m", "messages": [{"role": "user", "content": "x" * size}]}
        counts.append(
            (await http.post("/s/binomial/v1/messages/count_tokens", json=body)).json()["input_tokens"]
        )
    assert 900 <= counts[1] - counts[0] < 905


async def test_retired_model_is_404_whatever_the_scenario_and_others_are_not(http: httpx.AsyncClient) -> None:
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        body = {"model": "claude-retired-1", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
        response = await http.post(path, json=body)
        assert response.status_code == 404
        assert response.json()["error"]["message"] == "model: claude-retired-1"
        assert (await http.post(path, json=body | {"model": "living"})).status_code == 200


async def test_requests_are_filtered_and_cleared(http: httpx.AsyncClient) -> None:
    await Chat(http, "binomial", session="a").say("Begin.")
    await Chat(http, "no_changes", session="b").say("Begin.")

    async def numbers(query: str) -> list[int]:
        return [e["number"] for e in (await http.get(f"/_sim/requests?{query}")).json()["requests"]]

    assert await numbers("session=a") == [1]
    assert await numbers("scenario=no_changes") == [2]
    assert await numbers("scenario=no_changes&session=a") == []
    assert "body" not in (await http.get("/_sim/requests?body=0")).json()["requests"][0]
    assert (await http.delete("/_sim/requests")).status_code == 204
    assert await numbers("") == []
