"""What a sandbox may ask the model: an allow-list, since everything not on it is a way out or a way to spend. Pure.

Client-side tools only: a server tool, an MCP server, a container, a file or a URL would make the upstream's machines
reach out to the network on the sandbox's behalf.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.domain.model_price import without_date

MAX_OUTPUT_TOKENS = 128_000
MIN_OUTPUT_TOKENS = 4_096
"""Less than this is not worth a call: an answer would be cut in the middle of a tool's input."""

_FIELDS = frozenset(
    {
        "model", "messages", "system", "tools", "tool_choice", "metadata", "max_tokens", "thinking", "stream",
        "context_management", "output_config", "output_format", "cache_control", "stop_sequences", "temperature",
        "top_p", "top_k",
    }
)  # fmt: skip
_CLIENT_TOOLS = ("custom", "bash_", "text_editor_", "memory_")
_SOURCES = frozenset({"base64", "text", "content"})
_SERVER_BLOCKS = (
    "container", "mcp_", "server_tool", "web_", "code_execution", "bash_code_execution", "text_editor_code_execution",
)  # fmt: skip
_SERVER_BETAS = (
    "mcp-", "code-execution", "files-api", "web-search", "web-fetch", "computer-use", "skills", "managed-agents",
    "environments", "fast-mode", "advisor",
)  # fmt: skip
_ALIASES = frozenset({"opus", "sonnet", "haiku", "fable"})


class NotAllowed(Exception):
    """The request asks for something a sandbox may not have; the text says what."""


@dataclass(frozen=True)
class Allowed:
    """A request that may pass: its JSON and what of it decides the price."""

    body: dict[str, Any]
    model: str
    max_tokens: int
    stream: bool


def parse_request(raw: bytes, models: Sequence[str], *, counting: bool = False) -> Allowed:
    """`models` are the allowed ones, () = any. `counting`: for count_tokens, which has no max_tokens.

    Raises NotAllowed.
    """
    try:
        body = json.loads(raw.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise NotAllowed("the request is not JSON") from None
    if not isinstance(body, dict):
        raise NotAllowed("the request is not a JSON object")
    given = {name for name, value in body.items() if value not in (None, [], {})}
    if unknown := sorted(given - _FIELDS):
        raise NotAllowed(f"`{unknown[0][:60]}` may not be used from a sandbox")
    body = {name: value for name, value in body.items() if name in _FIELDS}
    model = body.get("model")
    if not isinstance(model, str) or not 0 < len(model) <= 200 or not _is_model_allowed(model, models):
        raise NotAllowed("this model may not be used from this sandbox")
    _check_tools(body.get("tools"))
    _check_content(body)
    return Allowed(body, model, 0 if counting else _max_tokens(body), body.get("stream") is True)


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _is_model_allowed(model: str, allowed: Sequence[str]) -> bool:
    name = model.removesuffix("[1m]")
    return not allowed or any(
        name == one or without_date(name) == one or (one in _ALIASES and name.startswith(f"claude-{one}-"))
        for one in (entry.removesuffix("[1m]") for entry in allowed)
    )


def _max_tokens(body: Mapping[str, Any]) -> int:
    wanted = body.get("max_tokens")
    if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted < 1:
        raise NotAllowed("`max_tokens` must be a positive number")
    return wanted


def _check_tools(tools: Any) -> None:
    if tools is None:
        return
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise NotAllowed("`tools` must be a list of objects")
    for tool in tools:
        kind = tool.get("type")
        if kind is not None and not (isinstance(kind, str) and kind.startswith(_CLIENT_TOOLS)):
            raise NotAllowed(f"tools of the type `{str(kind)[:60]}` run on a server and may not be used")
        if tool.get("allowed_callers") not in (None, [], ["direct"]):
            raise NotAllowed("a tool's `allowed_callers` may only be `direct`")


def _check_content(body: Mapping[str, Any]) -> None:
    for block in _blocks(body):
        kind = block.get("type")
        if isinstance(kind, str) and kind.startswith(_SERVER_BLOCKS):
            raise NotAllowed(f"content of the type `{kind[:60]}` may not be used from a sandbox")
        source = block.get("source")
        if isinstance(source, dict) and source.get("type") not in _SOURCES:
            raise NotAllowed("content must be in the request itself: no URLs and no files")


def _blocks(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every content block of `system` and `messages`, those inside tool results and documents too."""
    waiting: list[Any] = [body.get("system")]
    messages = body.get("messages")
    if isinstance(messages, list):
        waiting += [message.get("content") for message in messages if isinstance(message, dict)]
    while waiting:
        content = waiting.pop()
        for block in content if isinstance(content, list) else [content]:
            if not isinstance(block, dict):
                continue
            yield block
            waiting.append(block.get("content"))
            if isinstance(block.get("source"), dict):
                waiting.append(block["source"].get("content"))


def with_max_tokens(allowed: Allowed, max_tokens: int) -> dict[str, Any]:
    """The body to forward; a thinking budget must stay below `max_tokens`, so it is cut along."""
    body = dict(allowed.body)
    body["max_tokens"] = max_tokens
    thinking = body.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if isinstance(thinking, dict) and isinstance(budget, int) and budget >= max_tokens:
        body["thinking"] = {**thinking, "budget_tokens": max(1024, max_tokens // 2)}
    return body


def encode(body: Mapping[str, Any]) -> bytes:
    """Written anew, so that what was checked is what the upstream reads (repeated names and the like)."""
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(body, separators=(",", ":")).encode()


def allowed_betas(values: Sequence[str]) -> str | None:
    """`anthropic-beta` without what would enable something on a server."""
    names = [name.strip() for value in values for name in value.split(",")]
    kept = [name for name in names if name and name.isascii() and not name.startswith(_SERVER_BETAS)]
    return ",".join(kept) or None
