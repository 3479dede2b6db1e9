"""What the agent answers in threads of a review, as it crosses the sandbox boundary."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from sandbox_payload.wire.base import Text, Wire

MAX_ANSWER = 4_000
MAX_ANSWERS = 500


class ThreadAnswer(Wire):
    """The agent's own words for one thread, which a message of the app has named by its number."""

    thread: int = Field(ge=1, lt=2**63)
    answer: Text = Field(max_length=MAX_ANSWER)


def answer_schema() -> dict[str, Any]:
    """JSON Schema of the tool's input."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["thread", "answer"],
        "properties": {
            "thread": {
                "type": "integer",
                "minimum": 1,
                "description": "The thread's number as the review names it",
            },
            "answer": {
                "type": "string",
                "pattern": r"\S",
                "maxLength": MAX_ANSWER,
                "description": "One or two sentences: what you did about it, or why nothing is to change",
            },
        },
    }
