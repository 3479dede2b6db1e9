"""Messages for the running agent: taken in order, said at once, confirmed when the model has been given them."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claude_agent_sdk import ClaudeSDKError

from sandbox_payload.agent import Agent
from sandbox_payload.reports import Report
from sandbox_payload.wire import EventType, Message, MessageType

TOOL_PATIENCE_S = 3.0
"""A tool older than this is moved to the background for a message (younger commands can't be)."""
_MAX_SENDS = 4
_FRAMES: dict[str, str] = {
    MessageType.USER_MESSAGE: "[Message from a person on GitHub, who may write to this repository. Their words:]",
    MessageType.INTERRUPT: "[Urgent message from a person on GitHub; what you were doing was stopped. Their words:]",
    MessageType.GUARDIAN_NUDGE: "[Reminder from Issuewright's supervision, not from a person:]",
    MessageType.SYSTEM: "[Notice from Issuewright itself, not from a person:]",
}


def framed(message: Message) -> str:
    """The content word for word below one line that says who speaks."""
    return f"{_FRAMES.get(message.message_type, _FRAMES[MessageType.SYSTEM])}\n{message.content}"


@dataclass
class _Said:
    message: Message
    sends: int = 0
    at: float = field(default_factory=time.monotonic)


class Steering:
    """`acknowledge` is called with the id of each message that the model has been given.

    What was given is remembered in `memory`, so that a restarted payload repeats only what has no receipt.
    """

    def __init__(
        self, agent: Agent, report: Report, acknowledge: Callable[[str], object], memory: Path
    ) -> None:
        self._agent = agent
        self._report = report
        self._acknowledge = acknowledge
        self._memory = memory
        self._given: set[str] = _read_given(memory)
        self._said: dict[str, _Said] = {}
        self._inbox: asyncio.Queue[_Said] = asyncio.Queue()
        self._pushing: set[asyncio.Task[None]] = set()

    @property
    def outstanding(self) -> bool:
        """Whether a message waits to be said, or was said and the model has not been given it yet."""
        return bool(self._said)

    @property
    def given(self) -> list[str]:
        """Ids of the messages that the model has been given so far."""
        return sorted(self._given)

    @property
    def given_count(self) -> int:
        """How many messages the model has been given so far."""
        return len(self._given)

    def take(self, message: Message) -> None:
        """Queues a message from the app; one that was given before is only confirmed again."""
        if message.id in self._given:
            self._acknowledge(message.id)
        elif message.id not in self._said:
            said = self._said[message.id] = _Said(message)
            self._inbox.put_nowait(said)

    async def run(self) -> None:
        """Says messages in order, for ever."""
        while True:
            await self._say(await self._inbox.get())

    async def repeat_unconfirmed(self, older_than_s: float) -> None:
        """Says again, under the same uuid, what has no receipt; gives up on a message after a few times."""
        for said in list(self._said.values()):
            if said.sends == 0 or time.monotonic() - said.at < older_than_s:
                continue
            if said.sends < _MAX_SENDS:
                await self._say(said)
            else:
                self._said.pop(said.message.id, None)
                told = {"reason": "message_not_taken_in", "message_id": said.message.id, "sends": said.sends}
                self._report(EventType.ERROR, told)

    def note_receipt(self, uuid: str) -> None:
        """The model has been given the message with this uuid (other uuids are not ours to confirm)."""
        said = self._said.pop(uuid, None)
        if said is None:
            return
        self._given.add(uuid)
        self._remember()
        message, activity = said.message, self._agent.activity
        told: dict[str, Any] = {"message_id": uuid, "seq": message.seq, "message_type": message.message_type}
        self._report(
            EventType.MESSAGE_INJECTED, {**told, "turn": activity.turn, "content": message.content[:2_000]}
        )
        self._acknowledge(uuid)

    async def _say(self, said: _Said) -> None:
        said.sends += 1
        said.at = time.monotonic()
        message = said.message
        with suppress(ClaudeSDKError):  # an agent that is gone says so on its own
            if message.message_type == MessageType.INTERRUPT and said.sends == 1:
                if self._agent.activity.busy:
                    self._report(EventType.INTERRUPTED, {"message_id": message.id, "by": "message"})
                await self._agent.interrupt()
            await self._agent.say(framed(message), message.id)
        if message.message_type != MessageType.INTERRUPT:
            task = asyncio.create_task(self._push(message.id))
            self._pushing.add(task)
            task.add_done_callback(self._pushing.discard)

    async def _push(self, uuid: str) -> None:
        """Moves a tool that runs for long out of the way of the message."""
        while uuid in self._said and self._agent.activity.busy:
            tool = self._agent.activity.tool
            if tool is not None and tool.age_s > TOOL_PATIENCE_S:
                with suppress(ClaudeSDKError):
                    await self._agent.move_tool_to_background()
                await asyncio.sleep(
                    0.4
                )  # a command that is not old enough yet by its own clock ignores the request
            await asyncio.sleep(0.1)

    def _remember(self) -> None:
        temporary = self._memory.with_suffix(".new")
        temporary.write_text(json.dumps(sorted(self._given)))
        os.replace(temporary, self._memory)  # noqa: PTH105


def _read_given(memory: Path) -> set[str]:
    try:
        return {str(uuid) for uuid in json.loads(memory.read_text())}
    except (OSError, ValueError, TypeError):
        return set()
