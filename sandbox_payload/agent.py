"""The agent: one Claude client held open for the whole sandbox, its stream drained by one task that never pauses."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ClaudeSDKError,
    Message,
    ProcessError,
    ResultMessage,
    UserMessage,
)

from sandbox_payload.activity import Activity
from sandbox_payload.changes import Changes
from sandbox_payload.reports import Reports

_INTERRUPT_S = 5.0
_DISCONNECT_S = 8.0
_HALT_S = 2.0


@dataclass(frozen=True)
class TurnEnd:
    """A turn ended with `result`; `interrupted`: because we asked for it."""

    result: ResultMessage
    interrupted: bool


@dataclass(frozen=True)
class Gone:
    """The agent's command line is not there any more."""

    exit_code: int | None
    detail: str


class Agent:
    """`ends` carries every TurnEnd and, at most once and last, a Gone."""

    def __init__(self, activity: Activity, reports: Reports, changes: Changes) -> None:
        self.ends: asyncio.Queue[TurnEnd | Gone] = asyncio.Queue()
        self.activity = activity
        self._reports = reports
        self._changes = changes
        self._client: ClaudeSDKClient | None = None
        self._drain: asyncio.Task[None] | None = None
        self._on_receipt: Callable[[str], None] = lambda _uuid: None
        self.watchers: list[Callable[[Message], None]] = []
        """Called with every message of the stream, after it was reported."""
        self._interrupted = False
        self._stderr: deque[str] = deque(maxlen=20)
        self.gone = False

    async def start(self, options: ClaudeAgentOptions, on_receipt: Callable[[str], None]) -> None:
        """Connects; `on_receipt` is called with the uuid of every message the model has been given.

        Raises ClaudeSDKError when the command line can't be started.
        """
        self._on_receipt = on_receipt
        client = ClaudeSDKClient(options)
        await client.connect()
        self._client = client
        self._drain = asyncio.create_task(self._read_stream(client), name="drain")

    def note_stderr(self, line: str) -> None:
        self._stderr.append(line[:500])

    async def say(self, text: str, uuid: str) -> None:
        """Writes a message to the agent, at once, also while it works. Raises ClaudeSDKError when it is gone."""
        self.activity.touch()
        await self._connected().query(_one_message(text, uuid))

    async def interrupt(self) -> None:
        """Stops the running turn and its tool; without one nothing happens."""
        self._interrupted = self.activity.busy
        with suppress(ClaudeSDKError, TimeoutError):
            async with asyncio.timeout(_INTERRUPT_S):
                await self._connected().interrupt()

    async def move_tool_to_background(self) -> bool:
        """Lets the running command or subagent go on in the background, so that a message is read now.

        The SDK has no public call for this control request; where it is missing, the message waits for the tool.
        """
        send = getattr(getattr(self._connected(), "_query", None), "_send_control_request", None)
        if send is None:
            return False
        try:
            async with asyncio.timeout(_INTERRUPT_S):
                await send({"subtype": "background_tasks"})
        except Exception:  # noqa: BLE001 - a foreign private interface raises bare Exception
            return False
        return True

    async def halt(self) -> None:
        """Stops the running turn and gives the command line a moment to write its transcript."""
        if self.activity.busy:
            await self.interrupt()
            with suppress(TimeoutError):
                async with asyncio.timeout(_HALT_S):
                    await self.ends.get()

    async def close(self) -> None:
        """Ends the command line; safe to call twice."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(ClaudeSDKError, TimeoutError, OSError):
                async with asyncio.timeout(_DISCONNECT_S):
                    await client.disconnect()
        if self._drain is not None:
            self._drain.cancel()
            await asyncio.gather(self._drain, return_exceptions=True)

    def _connected(self) -> ClaudeSDKClient:
        if self._client is None:
            raise ClaudeSDKError("the agent is not connected")
        return self._client

    async def _read_stream(self, client: ClaudeSDKClient) -> None:
        gone = Gone(None, "the agent's output ended")
        try:
            async for message in client.receive_messages():
                await self._take(message)
        except ProcessError as error:
            gone = Gone(error.exit_code, self._last_words(error))
        except Exception as error:  # noqa: BLE001 - whatever ends the stream ends the agent, and is reported
            gone = Gone(None, self._last_words(error))
        self.activity.busy = False
        self.activity.tools.clear()
        self.gone = True
        self.ends.put_nowait(gone)

    async def _take(self, message: Message) -> None:
        for uuid in _receipts(message):
            self._on_receipt(uuid)
        files_may_differ = self._reports.take(message)
        for watch in self.watchers:
            watch(message)
        if files_may_differ:
            self._reports.file_changes(await asyncio.to_thread(self._changes.look))
        if isinstance(message, ResultMessage):
            self.activity.turn += 1
            interrupted, self._interrupted = self._interrupted, False
            self.ends.put_nowait(TurnEnd(message, interrupted))

    def _last_words(self, error: Exception) -> str:
        return " | ".join([f"{type(error).__name__}: {error}", *self._stderr])[-2_000:]


def _receipts(message: Message) -> list[str]:
    """The uuids of messages that the model has been given, as far as this message tells."""
    if isinstance(message, UserMessage):
        return [message.uuid] if message.uuid else []
    if isinstance(message, ResultMessage | AssistantMessage):
        return [uuid for uuid in {*(message.user_message_uuids or []), message.user_message_uuid} if uuid]
    return []


async def _one_message(text: str, uuid: str) -> AsyncIterator[dict[str, Any]]:
    yield {
        "type": "user",
        "message": {"role": "user", "content": text},
        "parent_tool_use_id": None,
        "uuid": uuid,
    }
