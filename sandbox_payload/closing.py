"""The closing task of a plan: the agent hands in, by a tool, what shows that each acceptance criterion is met."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from claude_agent_sdk import SdkMcpTool, create_sdk_mcp_server
from pydantic import TypeAdapter, ValidationError

from sandbox_payload.outcome import Outcome
from sandbox_payload.submission_tools import OwnTools
from sandbox_payload.submissions import SERVER
from sandbox_payload.turns import Turns
from sandbox_payload.wire.evidence import Criterion, Evidence, evidence_schema

TOOL = "report_evidence"
FULL_NAME = f"mcp__{SERVER}__{TOOL}"
MAX_REMINDERS = 2
_REMINDER = (
    "[Notice from Issuewright itself, not from a person:]\nNothing was handed in about {missing}. Only a call of the tool "
    "{tool} counts; text is not read. Look at each of them and hand in what you find, also where it is not met."
)
_ROWS = TypeAdapter(list[Evidence])


class EvidenceBook:
    """What was handed in, the newest word on each criterion; on disk, so that a restarted payload knows it."""

    def __init__(self, criteria: list[Criterion], state: Path) -> None:
        self._criteria = criteria
        self._path = state / "evidence.json"
        self._rows = {row.criterion: row for row in _read(self._path)}

    @property
    def rows(self) -> list[Evidence]:
        """In the order of the criteria."""
        return [self._rows[one.id] for one in self._criteria if one.id in self._rows]

    @property
    def missing(self) -> list[str]:
        return [one.id for one in self._criteria if one.id not in self._rows]

    def hand_in(self, rows: list[Evidence]) -> str:
        """Takes rows that fit the schema; what to tell the agent."""
        known = {one.id for one in self._criteria}
        self._rows |= {row.criterion: row for row in rows if row.criterion in known}
        temporary = self._path.with_suffix(".new")
        temporary.write_text(json.dumps(_ROWS.dump_python(self.rows, mode="json")))
        os.replace(temporary, self._path)  # noqa: PTH105
        return (
            f"Taken. Still missing: {', '.join(self.missing)}."
            if self.missing
            else "Taken. Nothing is missing."
        )


def _read(path: Path) -> list[Evidence]:
    try:
        return _ROWS.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return []


class Closing:
    """`work` fills a round of the closing sandbox as `Turns.run` does that of another task."""

    def __init__(self, turns: Turns, book: EvidenceBook) -> None:
        self._turns = turns
        self._book = book

    async def work(self, prompt: str | None, deadline: float) -> Outcome:
        """Lets the agent work; what it left out is asked for, twice at most, and then stays missing."""
        outcome = await self._turns.run(prompt, deadline)
        for _ in range(MAX_REMINDERS if prompt is not None else 0):
            if outcome.status != "completed" or not self._book.missing:
                break
            reminder = _REMINDER.format(missing=", ".join(self._book.missing), tool=FULL_NAME)
            outcome = await self._turns.run(reminder, deadline)
        return outcome


def evidence_tool(criteria: list[Criterion], book: EvidenceBook) -> OwnTools:
    """The agent's tool of a closing sandbox."""

    async def hand_in(handed: dict[str, Any]) -> dict[str, Any]:
        try:
            text, is_error = book.hand_in(_ROWS.validate_python(handed.get("rows"))), False
        except ValidationError as error:
            text, is_error = f"Not taken: {error.errors()[0]['msg']}", True
        return {"content": [{"type": "text", "text": text}], "is_error": is_error}

    tool = SdkMcpTool(
        name=TOOL,
        description="Hands in what shows that acceptance criteria are met, or are not. A later word on one replaces it.",
        input_schema=evidence_schema(criteria),
        handler=hand_in,
    )
    return OwnTools({SERVER: create_sdk_mcp_server(SERVER, tools=[tool])}, [FULL_NAME])
