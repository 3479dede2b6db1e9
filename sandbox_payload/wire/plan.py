"""Planning as it crosses the sandbox boundary: what a phase is asked for, and what is wrong with what came.

A phase's output is plain JSON of the schema that its order carries; the models behind the schemas are the app's.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field

from sandbox_payload.wire.base import Wire


class PhaseName(StrEnum):
    """In their order (contract, section 5). `sync` is done by the app's own code, never in a sandbox."""

    EXPLORE = "explore"
    REQUIREMENTS = "requirements"
    DESIGN = "design"
    TASKS = "tasks"
    SYNC = "sync"


AGENT_PHASES = (PhaseName.EXPLORE, PhaseName.REQUIREMENTS, PhaseName.DESIGN, PhaseName.TASKS)
MAX_PHASE_ATTEMPTS = 3
MAX_OUTPUT_BYTES = 300_000
"""Of one phase's output as JSON: it travels in one event, whole."""


class PhaseOrder(Wire):
    """One phase for the agent: `instructions` is its prompt, `output_schema` the JSON Schema of what it hands in."""

    name: PhaseName
    version: int = Field(ge=1)
    """Of the output's model."""
    instructions: str
    output_schema: dict[str, Any]


class Finding(Wire):
    """One reason why an output does not pass. `rule` is a stable name, `where` a path into the output (`tasks[2]`)."""

    rule: str = Field(max_length=100)
    message: str = Field(max_length=2_000)
    where: str = Field(default="", max_length=300)

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message
