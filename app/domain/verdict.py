"""What a model is asked about a running agent, and what is read out of its answer. Pure.

What it is shown was written by an agent and by strangers, and may have been made to talk it into something. So an answer
counts only in one shape, and of it nothing but one short text is used: a reminder as the rules give them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from app.domain.guardian import Seen
from app.domain.model_price import Usage
from app.domain.sanitize import sanitize_line
from sandbox_payload.wire import EventType

TOOL = "give_verdict"
MAX_OUTPUT_TOKENS = 1_000
MAX_EVENTS = 300
"""The newest ones that are shown."""
MAX_LINE = 400
"""Characters of one event."""
MAX_TRAJECTORY = 24_000
MAX_TASK = 8_000
MAX_ADVICE = 500
"""Characters that an agent is told."""
SHOWN = (
    EventType.ASSISTANT_MESSAGE,
    EventType.TOOL_USE,
    EventType.USER_TOOL_RESULT,
    EventType.FILE_EDITED,
    EventType.MESSAGE_INJECTED,
)

_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "aligned": {"type": "boolean"},
        "score": {"type": "integer", "minimum": 0, "maximum": 100},
        "steering_needed": {"type": "boolean"},
        "message": {"type": "string"},
    },
    "required": ["aligned", "score", "steering_needed", "message"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Assignment:
    """What an agent works on: the issue as it was endorsed, and its task of the plan, None while planning."""

    title: str
    body: str
    task_title: str | None
    task_text: str | None


class Verdict(BaseModel):
    """What a model says of a run. Other names or types are no verdict."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    aligned: bool
    score: Annotated[int, Field(ge=0, le=100)]
    steering_needed: bool
    message: Annotated[str, StringConstraints(max_length=20_000)]

    @property
    def advice(self) -> str:
        """What is to be said to the agent, in one line; empty when nothing is."""
        return sanitize_line(self.message, MAX_ADVICE) if self.steering_needed else ""


class _Tokens(BaseModel):
    """An answer's own count. Above a hundred million a number is absurd."""

    model_config = ConfigDict(strict=True)

    input_tokens: Annotated[int, Field(ge=0, le=10**8)]
    output_tokens: Annotated[int, Field(ge=0, le=10**8)]
    cache_read_input_tokens: Annotated[int, Field(ge=0, le=10**8)] | None = None
    cache_creation_input_tokens: Annotated[int, Field(ge=0, le=10**8)] | None = None


class _Use(BaseModel):
    type: Literal["tool_use"]
    name: Literal["give_verdict"]
    input: Verdict


@cache
def _instructions() -> str:
    return (files("app.domain") / "texts" / "verdict.md").read_text(encoding="utf-8")


def render_question(model: str, assignment: Assignment, events: Iterable[Seen]) -> bytes:
    """The request's body. The material is one JSON text, which nothing in it can end."""
    task: dict[str, str] = {"issue": assignment.title[:MAX_LINE], "text": assignment.body[:MAX_TASK]}
    if assignment.task_title is None:
        task["now"] = "It plans this work. It is not to change files yet."
    else:
        task |= {"now": assignment.task_title[:MAX_LINE], "details": (assignment.task_text or "")[:MAX_TASK]}
    material = json.dumps({"task": task, "trajectory": fold(events)}, ensure_ascii=False)
    question = {
        "model": model,
        "max_tokens": MAX_OUTPUT_TOKENS,
        "system": _instructions(),
        "messages": [{"role": "user", "content": material}],
        "tools": [{"name": TOOL, "description": "Gives the verdict.", "input_schema": _SCHEMA}],
        "tool_choice": {"type": "tool", "name": TOOL},
    }
    # Lone surrogates, which JSON can name, are in no encoding.
    return json.dumps(question, ensure_ascii=False).encode("utf-8", "replace")


def fold(events: Iterable[Seen]) -> list[str]:
    """Lines that say what was done, oldest first: the same ones in a row as one, and the oldest left out where they are
    too long together.
    """
    runs: list[tuple[str, int]] = []
    for event in events:
        line = _line(event)
        if runs and runs[-1][0] == line:
            runs[-1] = (line, runs[-1][1] + 1)
        elif line:
            runs.append((line, 1))
    kept: list[str] = []
    left = MAX_TRAJECTORY
    for line, times in reversed(runs):
        text = line if times == 1 else f"{line} ({times} times)"
        left -= len(text)
        if left < 0:
            kept.append("(what came before is left out)")
            break
        kept.append(text)
    return kept[::-1]


def _line(event: Seen) -> str:
    data = event.data
    match event.event_type:
        case EventType.ASSISTANT_MESSAGE:
            return _short("says", data.get("text"))
        case EventType.TOOL_USE:
            return _short(f"calls {str(data.get('tool'))[:60]}", data.get("input"))
        case EventType.USER_TOOL_RESULT:
            return _short("gets an error" if data.get("is_error") is True else "gets", data.get("content"))
        case EventType.FILE_EDITED:
            head = f"{data.get('change')} {data.get('file_path')}"[:MAX_LINE]
            return _short(head, data.get("full_diff"))
        case EventType.MESSAGE_INJECTED:
            return _short("is told", data.get("message_type"))
        case _:
            return ""


def _short(head: str, value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text[: 4 * MAX_LINE].split())
    line = f"{head}: {text}"
    return line if len(line) <= MAX_LINE else line[: MAX_LINE - 1] + "…"


@dataclass(frozen=True)
class Answered:
    """What an answer says, as far as it can be believed. `usage`: None where it does not say what it took."""

    verdict: Verdict | None
    usage: Usage | None


def parse_answer(raw: bytes) -> Answered:
    """Of a whole answer of the Messages API. A refusal, words, two verdicts or one that was cut off are none."""
    try:
        answer = json.loads(raw)
    except (ValueError, RecursionError):
        return Answered(None, None)
    if not isinstance(answer, dict):
        return Answered(None, None)
    return Answered(_verdict(answer), _usage(answer.get("usage")))


def _verdict(answer: Mapping[str, Any]) -> Verdict | None:
    content = answer.get("content")
    blocks = content if isinstance(content, list) else []
    uses = [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_use"]
    if answer.get("stop_reason") != "tool_use" or len(uses) != 1:
        return None
    try:
        return _Use.model_validate(uses[0]).input
    except ValidationError:
        return None


def _usage(said: object) -> Usage | None:
    try:
        tokens = _Tokens.model_validate(said)
    except ValidationError:
        return None
    return Usage(
        input=tokens.input_tokens,
        output=tokens.output_tokens,
        cache_read=tokens.cache_read_input_tokens or 0,
        cache_write_5m=tokens.cache_creation_input_tokens or 0,
    )
