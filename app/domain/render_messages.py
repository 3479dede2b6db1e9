"""What was said to the agent, as the status comment lists it: who, when, and how far it got. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.sanitize import escape_markdown, sanitize_line
from app.domain.view import MessageView

_STATES = {
    "queued": "waits for the agent",
    "sent": "on its way to the agent",
    "acknowledged": "taken in",
    "refused": "not taken in: its run had failed",
    "cancelled": "withdrawn",
}


def message_lines(messages: Sequence[MessageView]) -> list[str]:
    """The texts themselves stand in the comments; here only what became of them."""
    if not messages:
        return []
    return ["", "**Messages**", "", *map(_line, messages)]


def _line(message: MessageView) -> str:
    who = escape_markdown(sanitize_line(message.login, 100)) or "the operator"
    at = f"{message.said_at:%Y-%m-%d %H:%M} UTC"
    said = f"[{at}]({message.url})" if message.url else at
    return f"- {who}, {said}: {_STATES[message.state]}"
