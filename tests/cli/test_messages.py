"""`issuewright messages send`: the operator's words to a running agent."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from sqlalchemy import select

from app.cli.messages import Kind
from app.db.engine import Database
from app.db.models import Message
from app.domain.states import SandboxState
from sandbox_payload.wire import MessageType
from tests.cli.running import COMMAND, Issuewright
from tests.db.rows import add_sandbox, add_spec


@pytest.fixture
async def boxes(migrated: Path) -> tuple[str, str]:
    """One that runs, and one that has ended."""
    db = Database(f"sqlite+aiosqlite:///{migrated}")
    spec_id = await add_spec(db)
    running = await add_sandbox(db, spec_id)
    ended = await add_sandbox(db, spec_id, attempt=2, state=SandboxState.COMPLETED)
    await db.aclose()
    return running, ended


async def queued(database: Path) -> list[tuple[str, str, str]]:
    db = Database(f"sqlite+aiosqlite:///{database}")
    async with db.read() as session:
        rows = (await session.scalars(select(Message).order_by(Message.seq))).all()
    await db.aclose()
    return [(row.sandbox_id or "", row.message_type, row.content) for row in rows]


def feed(issuewright: Issuewright, data: bytes, sandbox_id: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, "messages", "send", sandbox_id],
        env=issuewright.environment(),
        cwd=issuewright.home,
        input=data,
        capture_output=True,
        timeout=60,
        check=False,
    )


async def test_words_are_queued_for_the_agent_in_their_order(
    issuewright: Issuewright, migrated: Path, boxes: tuple[str, str]
) -> None:
    said = issuewright.run("messages", "send", boxes[0], "Use the table, not the loop.")
    assert said.code == 0, said.err
    assert said.out.startswith(f"message 1 to {boxes[0]} is queued (")
    receipt = json.loads(
        issuewright.run("messages", "send", boxes[0], "Stop that.", "--type", "interrupt", "--json").out
    )
    assert (receipt["seq"], receipt["state"]) == (2, "queued")
    assert feed(issuewright, "Two lines\nof café\n".encode(), boxes[0]).returncode == 0
    assert await queued(migrated) == [
        (boxes[0], "user_message", "Use the table, not the loop."),
        (boxes[0], "interrupt", "Stop that."),
        (boxes[0], "user_message", "Two lines\nof café"),
    ]


async def test_what_can_not_be_sent_is_refused_in_words_and_queues_nothing(
    issuewright: Issuewright, migrated: Path, boxes: tuple[str, str]
) -> None:
    for sandbox_id, text, code, why in (
        (boxes[1], "hello", 1, "the sandbox has ended"),
        ("sbx_none", "hello", 1, "no such sandbox"),
        (f"{boxes[1]}/../{boxes[0]}", "hello", 2, "is no id"),
        (boxes[0], " \n", 2, "there is no text to send"),
        (boxes[0], "x" * 65_537, 2, "at most 65536"),
    ):
        answer = issuewright.run("messages", "send", sandbox_id, text)
        assert (answer.code, why in answer.err) == (code, True), answer.err
    assert issuewright.run("messages", "send", boxes[0], "hello", "--type", "shout").code == 2
    assert feed(issuewright, b"\xff\xfe", boxes[0]).returncode == 2
    assert await queued(migrated) == []


def test_each_type_of_the_operator_api_can_be_sent() -> None:
    assert list(Kind) == list(MessageType)
