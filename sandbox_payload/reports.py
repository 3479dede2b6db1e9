"""The agent's stream as events: every message of the SDK becomes what the contract calls it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from claude_agent_sdk import (
    AssistantMessage,
    ContentBlock,
    Message,
    ResultMessage,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
)

from sandbox_payload.activity import Activity, RunningTool
from sandbox_payload.changes import FileChange
from sandbox_payload.wire import EventType

Report = Callable[[str, dict[str, Any]], object]
"""Stores one event: type, data."""

_READS_ONLY = frozenset({"Read", "Glob", "Grep"})
_UNTOLD = frozenset({"session_state_changed", "status"})
"""System messages that come often and say nothing to a person."""


class Reports:
    """Turns stream messages into events and keeps `activity` up to date."""

    def __init__(self, report: Report, activity: Activity) -> None:
        self._report = report
        self._activity = activity

    def take(self, message: Message) -> bool:
        """Reports one message; whether files may have changed since the message before."""
        self._activity.touch()
        if isinstance(message, AssistantMessage):
            self._assistant(message)
            return False
        if isinstance(message, UserMessage):
            return self._user(message)
        if isinstance(message, ResultMessage):
            self._result(message)
            return True
        if isinstance(message, SystemMessage):
            return self._system(message)
        self._report(
            EventType.SYSTEM_MESSAGE, {"subtype": type(message).__name__, **dataclasses.asdict(message)}
        )
        return False

    def file_changes(self, changes: list[FileChange]) -> None:
        for change in changes:
            data = dataclasses.asdict(change)
            data["file_path"] = data.pop("path")
            self._report(EventType.FILE_EDITED, {**data, "turn": self._activity.turn})

    def _assistant(self, message: AssistantMessage) -> None:
        common = {"message_id": message.message_id, "parent_tool_use_id": message.parent_tool_use_id}
        for block in message.content:
            if isinstance(block, ToolUseBlock):
                self._activity.tools[block.id] = RunningTool(block.name, time.monotonic())
                told = {"tool": block.name, "input": block.input, "tool_use_id": block.id, **common}
                self._report(EventType.TOOL_USE, told)
            elif isinstance(block, TextBlock):
                if message.parent_tool_use_id is None:
                    self._activity.last_text = block.text
                told = {"text": block.text, "model": message.model, "usage": message.usage, **common}
                if message.error:
                    told["error"] = message.error
                self._report(EventType.ASSISTANT_MESSAGE, {**told, "stop_reason": message.stop_reason})
            elif isinstance(block, ThinkingBlock):
                self._report(EventType.MESSAGE, {"kind": "thinking", "text": block.thinking, **common})
            else:
                told = {"kind": type(block).__name__, "block": dataclasses.asdict(block), **common}
                self._report(EventType.MESSAGE, told)

    def _user(self, message: UserMessage) -> bool:
        blocks: list[ContentBlock] = (
            [TextBlock(message.content)] if isinstance(message.content, str) else message.content
        )
        wrote = False
        for block in blocks:
            if isinstance(block, ToolResultBlock):
                wrote = self._tool_result(block, message) or wrote
            elif isinstance(block, TextBlock):
                told = {"kind": "prompt", "text": block.text, "uuid": message.uuid, "origin": message.origin}
                self._report(EventType.MESSAGE, {**told, "parent_tool_use_id": message.parent_tool_use_id})
        return wrote

    def _tool_result(self, block: ToolResultBlock, message: UserMessage) -> bool:
        tool = self._activity.tools.pop(block.tool_use_id, None)
        is_error = bool(block.is_error)
        told = {"tool_use_id": block.tool_use_id, "is_error": is_error}
        result = {"content": block.content, "parent_tool_use_id": message.parent_tool_use_id, **told}
        self._report(EventType.USER_TOOL_RESULT, result)
        duration_ms = round(tool.age_s * 1000) if tool else None
        completed = {"tool": tool.name if tool else None, "duration_ms": duration_ms, **told}
        self._report(EventType.TOOL_COMPLETED, completed)
        return tool is None or tool.name not in _READS_ONLY

    def _result(self, message: ResultMessage) -> None:
        activity = self._activity
        activity.busy = False
        activity.tools.clear()
        activity.session_id = message.session_id or activity.session_id
        if message.total_cost_usd is not None:
            activity.cost_usd = max(0.0, message.total_cost_usd - activity.cost_before_usd)
        activity.turns_of_model += message.num_turns
        told = dataclasses.asdict(message)
        told["result_subtype"] = told.pop("subtype")
        own = {"subtype": "result", "turn": activity.turn, "cost_usd": activity.cost_usd}
        self._report(EventType.SYSTEM_MESSAGE, {**told, **own})

    def _system(self, message: SystemMessage) -> bool:
        activity, data = self._activity, message.data
        if message.subtype == "init":
            activity.session_id = data.get("session_id") or activity.session_id
            self._running(True)
        elif message.subtype == "session_state_changed":
            self._running(data.get("state") != "idle")
        elif message.subtype == "background_tasks_changed":
            before = activity.background
            tasks = [task for task in data.get("tasks") or [] if isinstance(task, dict)]
            activity.background = {str(task.get("task_id")): str(task.get("description")) for task in tasks}
            activity.wake_expected = bool(before) and not activity.background
        if message.subtype not in _UNTOLD:
            told = {key: value for key, value in data.items() if key not in ("type", "uuid")}
            self._report(EventType.SYSTEM_MESSAGE, {**told, "subtype": message.subtype})
        return message.subtype == "task_notification"

    def _running(self, running: bool) -> None:
        self._activity.busy = running
        if running:
            self._activity.wake_expected = False
