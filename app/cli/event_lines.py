"""One event of a sandbox as a line that a person can read."""

from __future__ import annotations

import json
import sys
from typing import Any

from app.cli.show import plain
from app.cli.terminal import escape_unprintable, readable

MAX_CHARS = 140
OWN_TOOLS = "mcp__issuewright__"
"""Before the names of the tools by which an agent hands something in."""
_SAYING = ("text", "summary", "message", "reason", "error", "content")
_INPUTS = ("file_path", "command", "pattern", "description", "prompt")


def supervision_events(view: dict[str, Any]) -> list[dict[str, Any]]:
    """What was wrong with a sandbox and what was done, as the last of its events. `view` is the API's."""
    told = view["supervision"]
    if told is None or told["trouble"] is None:
        return []
    at = view["ended_at"] or view["updated_at"]
    message = ". ".join([f"{told['trouble']}: {told['seen'] or ''}".rstrip(". "), *told["done"]])
    data = {"trouble": told["trouble"], "message": message, "done": told["done"]}
    return [
        {
            "seq": view["last_seq"], "event_type": "supervision.trouble", "event_data": data, "source": "system",
            "timestamp": at, "received_at": at,
        }
    ]  # fmt: skip


def print_event(event: dict[str, Any], *, as_json: bool, diff: bool) -> None:
    if as_json:
        print(escape_unprintable(json.dumps(event, ensure_ascii=False)), flush=True)
        return
    at = str(event["timestamp"])[11:19]
    print(f"{event['seq']:>5}  {at}  {event['event_type']:<24}  {say(event)}", flush=True)
    text = event["event_data"].get("full_diff")
    if diff and isinstance(text, str):
        _print_diff(text)


def _print_diff(text: str) -> None:
    """Coloured on a terminal only, and by us: what the text itself would do there is taken out."""
    lines = [line.rstrip() for line in readable(text).split("\n")]
    if not sys.stdout.isatty():
        print("\n".join(f"       {line}" for line in lines), flush=True)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for line in lines:
        console.print(Text(f"       {line}", style=_style(line)), soft_wrap=True)


def _style(line: str) -> str:
    for start, style in (("+++", "bold"), ("---", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red")):
        if line.startswith(start):
            return style
    return ""


def say(event: dict[str, Any]) -> str:
    """What is worth saying of it, cut to one line."""
    data = event["event_data"]
    if event["event_type"] == "agent.tool_use":
        text = tool_line(data)
    elif event["event_type"] == "agent.file_edited":
        text = f"{data.get('file_path')}  {data.get('change')}  +{data.get('lines_added')} -{data.get('lines_removed')}"
    else:
        text = next((str(data[name]) for name in _SAYING if data.get(name)), "")
    line = plain(text)
    return line if len(line) <= MAX_CHARS else line[: MAX_CHARS - 1] + "…"


def tool_line(data: dict[str, Any]) -> str:
    """The tool's name and what it was given, as far as one line says it."""
    given = data.get("input")
    inputs = given if isinstance(given, dict) else {}
    detail = next((str(inputs[key]) for key in _INPUTS if inputs.get(key)), "")
    name = str(data.get("tool", "tool")).removeprefix(OWN_TOOLS)
    return plain(f"{name:<6} {detail}".rstrip())
