"""What was said to the agent, as the status comment lists it: who, when, and how far it got. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.sanitize import escape_markdown, sanitize_line
from app.domain.states import SpecState
from app.domain.view import MessageView

_STATES = {
    "queued": "waits for the agent",
    "sent": "on its way to the agent",
    "acknowledged": "taken in",
    "refused": "not taken in: its run had failed",
    "cancelled": "withdrawn",
}


_OPEN = frozenset({"queued", "sent"})


def message_lines(messages: Sequence[MessageView], state: str, *, label_gone: bool) -> list[str]:
    """The texts themselves stand in the comments; here only what became of them. `state`: the spec's; `label_gone`: it was
    cancelled by removing its label, so that no retry can take it up.
    """
    if not messages:
        return []
    return ["", "**Messages**", "", *(_line(message, state, label_gone) for message in messages)]


def _became(message: MessageView, state: str, label_gone: bool) -> str:
    if (state == SpecState.COMPLETED or label_gone) and message.state in _OPEN | {"refused"}:
        return "not taken in before the work ended"
    if state in {SpecState.CANCELLED, SpecState.FAILED} and message.state in _OPEN:
        return "waits for `/agent retry`"
    return _STATES[message.state]


def _line(message: MessageView, state: str, label_gone: bool) -> str:
    who = escape_markdown(sanitize_line(message.login, 100)) or "the operator"
    at = f"{message.said_at:%Y-%m-%d %H:%M} UTC"
    said = f"[{at}]({message.url})" if message.url else at
    return f"- {who}, {said}: {_became(message, state, label_gone)}"
