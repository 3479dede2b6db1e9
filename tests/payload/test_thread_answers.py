"""The agent's tool for answers in threads of a review."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp.client import Client
from mcp.types import TextContent

from sandbox_payload.activity import Activity
from sandbox_payload.thread_answers import SERVER, TOOL, AnswerBook, answer_tool


def book_of(state: Path, round_: int = 1) -> AnswerBook:
    activity = Activity()
    activity.round = round_
    return AnswerBook(activity, state)


async def call(book: AnswerBook, **handed: object) -> tuple[bool, str]:
    """As the agent's program calls it; whether it was refused, and what the agent reads."""
    async with Client(answer_tool(book).servers[SERVER]["instance"]) as client:
        result = await client.call_tool(TOOL, handed)
    [part] = result.content
    assert isinstance(part, TextContent)
    return bool(result.is_error), part.text


async def test_newest_answer_to_each_thread_is_handed_over(tmp_path: Path) -> None:
    book = book_of(tmp_path)
    assert await call(book, thread=7, answer="Renamed.") == (
        False,
        "Taken: thread 7 will get this answer.",
    )
    await call(book, thread=8, answer="Left as it is.")
    await call(book, thread=7, answer="Renamed it twice.")
    assert [(row.thread, row.answer) for row in book.rows] == [
        (8, "Left as it is."), (7, "Renamed it twice."),
    ]  # fmt: skip


async def test_answers_outlive_a_restart_and_end_with_their_round(tmp_path: Path) -> None:
    await call(book_of(tmp_path), thread=7, answer="Renamed.")
    assert [row.thread for row in book_of(tmp_path).rows] == [7]
    later = book_of(tmp_path, 2)
    assert later.rows == []
    await call(later, thread=9, answer="Done.")
    assert [row.thread for row in later.rows] == [9]


@pytest.mark.parametrize(
    "handed", [{"thread": 0, "answer": "x"}, {"thread": 7}, {"thread": 7, "answer": "x" * 4_001}]
)
async def test_senseless_answer_is_refused_and_said_so(tmp_path: Path, handed: dict[str, object]) -> None:
    book = book_of(tmp_path)
    refused, text = await call(book, **handed)
    assert refused
    assert text
    assert book.rows == []


async def test_damaged_file_counts_as_no_answers(tmp_path: Path) -> None:
    (tmp_path / "answers.json").write_text("{half")
    assert book_of(tmp_path).rows == []
