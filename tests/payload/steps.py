"""What the scripted model does, in short."""

from __future__ import annotations

from typing import Any


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    """A model's step that calls one tool."""
    return {"tool_use": [{"name": name, "input": arguments}]}


def bash(command: str, **arguments: Any) -> dict[str, Any]:
    return tool("Bash", command=command, **arguments)


def write(path: str, content: str) -> dict[str, Any]:
    return tool("Write", file_path="{workspace}/" + path, content=content)


def say(text: str) -> dict[str, Any]:
    return {"text": text}
