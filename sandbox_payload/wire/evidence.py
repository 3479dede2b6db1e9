"""Acceptance criteria and what shows that they are met, as both cross the sandbox boundary."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from sandbox_payload.wire.base import Text, Wire


class Criterion(Wire):
    id: str = Field(max_length=40)
    text: str = Field(max_length=1_000)


class Evidence(Wire):
    """The agent's own word on one criterion: `evidence` names a test, a file and line, or a command and its output."""

    criterion: Text = Field(max_length=40)
    met: bool
    evidence: Text = Field(max_length=2_000)


def evidence_schema(criteria: list[Criterion]) -> dict[str, Any]:
    """JSON Schema of the tool's input: rows about exactly these criteria."""
    row = {
        "type": "object",
        "additionalProperties": False,
        "required": ["criterion", "met", "evidence"],
        "properties": {
            "criterion": {"type": "string", "enum": [one.id for one in criteria]},
            "met": {"type": "boolean", "description": "True only if you have seen it hold"},
            "evidence": {
                "type": "string",
                "pattern": r"\S",
                "maxLength": 2_000,
                "description": "What shows it: the name of a test, a file and line, or a command and what it printed",
            },
        },
    }
    rows = {"type": "array", "minItems": 1, "maxItems": 500, "items": row}
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["rows"],
        "properties": {"rows": rows},
    }
