"""Answers to threads of a review: the agent hands them in by a tool, the manifest of the round carries them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from claude_agent_sdk import SdkMcpTool, create_sdk_mcp_server
from pydantic import TypeAdapter, ValidationError

from sandbox_payload.activity import Activity
from sandbox_payload.submission_tools import OwnTools
from sandbox_payload.wire.answers import MAX_ANSWERS, ThreadAnswer, answer_schema

SERVER = "reviews"
TOOL = "answer_thread"
FULL_NAME = f"mcp__{SERVER}__{TOOL}"
_ROWS = TypeAdapter(dict[int, list[ThreadAnswer]])


class AnswerBook:
    """The newest answer to each thread, round by round; on disk, so that a restarted payload knows it."""

    def __init__(self, activity: Activity, state: Path) -> None:
        self._activity = activity
        self._path = state / "answers.json"
        self._rounds = _read(self._path)

    @property
    def rows(self) -> list[ThreadAnswer]:
        """Of the round that goes on."""
        return self._rounds.get(self._activity.round, [])[:MAX_ANSWERS]

    def hand_in(self, answer: ThreadAnswer) -> None:
        others = [row for row in self.rows if row.thread != answer.thread]
        self._rounds = {self._activity.round: [*others, answer]}
        temporary = self._path.with_suffix(".new")
        temporary.write_text(json.dumps(_ROWS.dump_python(self._rounds, mode="json")))
        os.replace(temporary, self._path)  # noqa: PTH105


def _read(path: Path) -> dict[int, list[ThreadAnswer]]:
    try:
        return _ROWS.validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return {}


def answer_tool(book: AnswerBook) -> OwnTools:
    """The agent's tool; it is there from the start, since a review may come at any time."""

    async def hand_in(handed: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = ThreadAnswer.model_validate(handed)
            book.hand_in(answer)
            text, is_error = f"Taken: thread {answer.thread} will get this answer.", False
        except ValidationError as error:
            text, is_error = f"Not taken: {error.errors()[0]['msg']}", True
        return {"content": [{"type": "text", "text": text}], "is_error": is_error}

    tool = SdkMcpTool(
        name=TOOL,
        description="Hands in the answer to one thread of a code review that a message has brought. A later one replaces it.",
        input_schema=answer_schema(),
        handler=hand_in,
    )
    return OwnTools({SERVER: create_sdk_mcp_server(SERVER, tools=[tool])}, [FULL_NAME])
