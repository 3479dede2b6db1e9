"""The Messages API's shapes: a finished message, its stream of events, usage numbers, errors."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
BYTES_PER_TOKEN = 4
_PIECE = 48  # characters per delta: several deltas even for short texts
_PLACEHOLDER = re.compile(r"\{(workspace|session|found:([A-Za-z0-9_]+))\}")

Usage = dict[str, int]


@dataclass(frozen=True)
class Answer:
    """One complete answer of the model, ready to be sent streamed or whole."""

    message_id: str
    model: str
    content: list[dict[str, Any]]
    stop_reason: str
    usage: Usage | None = field(default_factory=dict)


def error_body(status: int, message: str, error_type: str | None = None) -> dict[str, Any]:
    """An error in the API's own shape."""
    kind = error_type or ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def fill(value: Any, workspace: str, session: str, found: dict[str, str]) -> Any:
    """`value` (any JSON) with its placeholders filled; a number never found reads "(not found)"."""

    def replace(match: re.Match[str]) -> str:
        if match.group(1) == "workspace":
            return workspace
        if match.group(1) == "session":
            return session
        return found.get(match.group(2), "(not found)")

    if isinstance(value, str):
        return _PLACEHOLDER.sub(replace, value)
    if isinstance(value, list):
        return [fill(item, workspace, session, found) for item in value]
    if isinstance(value, dict):
        return {key: fill(item, workspace, session, found) for key, item in value.items()}
    return value


def count_tokens(text_bytes: int) -> int:
    """A believable number of tokens for so many bytes; at least 1."""
    return max(1, -(-text_bytes // BYTES_PER_TOKEN))


def compute_usage(body: dict[str, Any], body_bytes: int, content: list[dict[str, Any]]) -> Usage:
    """Usage as a caching client sees it: the newest message is fresh, what went before comes from the cache.

    The first request of a conversation writes the cache instead.
    """
    messages = body.get("messages") or []
    newest = len(json.dumps(messages[-1])) if messages else 0
    before = count_tokens(max(0, body_bytes - newest))
    resumed = any(isinstance(m, dict) and m.get("role") == "assistant" for m in messages)
    return {
        "input_tokens": count_tokens(newest),
        "cache_creation_input_tokens": 0 if resumed else before,
        "cache_read_input_tokens": before if resumed else 0,
        "output_tokens": count_tokens(sum(len(json.dumps(block)) for block in content)),
    }


def message_body(answer: Answer) -> dict[str, Any]:
    """The whole message, as a request without `stream` gets it."""
    body: dict[str, Any] = {
        "id": answer.message_id,
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": answer.content,
        "stop_reason": answer.stop_reason,
        "stop_sequence": None,
    }
    if answer.usage is not None:
        body["usage"] = answer.usage
    return body


def event(kind: str, **data: Any) -> bytes:
    """One server-sent event."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


PING = event("ping")


def start_event(answer: Answer) -> bytes:
    """`message_start`: everything known before the first word."""
    message = message_body(answer) | {"content": [], "stop_reason": None}
    if answer.usage is not None:
        message["usage"] = answer.usage | {"output_tokens": 1}
    return event("message_start", message=message)


def content_events(answer: Answer) -> Iterator[bytes]:
    """The content blocks, each in several deltas."""
    for index, block in enumerate(answer.content):
        if block["type"] == "text":
            empty: dict[str, Any] = {"type": "text", "text": ""}
            whole, delta_type, key = block["text"], "text_delta", "text"
        else:
            empty = {**block, "input": {}}
            whole, delta_type, key = json.dumps(block["input"]), "input_json_delta", "partial_json"
        yield event("content_block_start", index=index, content_block=empty)
        for at in range(0, len(whole), _PIECE):
            delta = {"type": delta_type, key: whole[at : at + _PIECE]}
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)


def end_events(answer: Answer) -> Iterator[bytes]:
    """`message_delta` with the stop reason and the final usage, then `message_stop`."""
    end: dict[str, Any] = {"delta": {"stop_reason": answer.stop_reason, "stop_sequence": None}}
    if answer.usage is not None:
        end["usage"] = answer.usage
    yield event("message_delta", **end)
    yield event("message_stop")
