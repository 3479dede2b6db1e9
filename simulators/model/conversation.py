"""Reading a Messages API request: pure functions over the body the CLI sent."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

# The wording of the CLI 2.1.332; each is the shortest part that tells the request apart.
COMPACTION_PROMPT = "Your task is to create a detailed summary of "
CONTINUED = "This session is being continued from a previous conversation"
INTERRUPTED = "[Request interrupted by user"
SYNTHETIC_ANSWER = "No response requested."
_NUDGES = re.compile(r"You MUST call the \S+ tool to complete this request")

_SCENARIO_LINE = re.compile(r"^[\s>*`-]*scenario:\s*`?([A-Za-z0-9_.-]+)`?\s*$", re.MULTILINE)
_QUOTED_SCENARIO = re.compile(r"(?:\\n|\b)scenario:\s*`?([A-Za-z0-9_.-]+)")
_WORKSPACE = re.compile(r"(?:[Ww]orking directory|cwd):\s*(/[^\n<]*)")

Kind = Literal["turn", "probe", "compaction", "verdict", "count_tokens"]


@dataclass(frozen=True)
class Part:
    """One block of a message: what was said, which tool was called, or what a tool reported."""

    kind: Literal["text", "tool_use", "tool_result"]
    text: str = ""
    tool_id: str = ""
    tool_name: str = ""
    is_error: bool = False


@dataclass(frozen=True)
class Message:
    """One message, with its blocks flattened to parts."""

    role: str
    parts: tuple[Part, ...]

    def texts(self) -> Iterator[str]:
        """What was said in it, tool results left out."""
        return (part.text for part in self.parts if part.kind == "text")


def parse_messages(body: dict[str, Any]) -> list[Message]:
    """The conversation of a request; blocks of unknown kinds are left out."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        return []
    return [
        Message(str(message.get("role", "")), tuple(_parts(message.get("content"))))
        for message in messages
        if isinstance(message, dict)
    ]


def _parts(content: object) -> Iterator[Part]:
    if isinstance(content, str):
        yield Part("text", content)
        return
    for block in content if isinstance(content, list) else []:
        if not isinstance(block, dict):
            continue
        if block.get("type") == "text":
            yield Part("text", str(block.get("text", "")))
        elif block.get("type") == "tool_use":
            yield Part("tool_use", tool_id=str(block.get("id")), tool_name=str(block.get("name")))
        elif block.get("type") == "tool_result":
            yield Part(
                "tool_result",
                text_of(block.get("content")),
                tool_id=str(block.get("tool_use_id")),
                is_error=bool(block.get("is_error")),
            )


def text_of(content: object) -> str:
    """All text of a content value, blocks joined by line ends."""
    return "\n".join(part.text for part in _parts(content) if part.kind != "tool_use")


def classify(body: dict[str, Any], messages: list[Message]) -> Kind:
    """Which of the reasons for asking this request has (`count_tokens` is known by its path)."""
    if body.get("max_tokens") == 1:
        return "probe"
    if forced_tool(body) is not None:
        return "verdict"
    last = next((message for message in reversed(messages) if message.role == "user"), None)
    if last is not None and any(COMPACTION_PROMPT in text for text in last.texts()):
        return "compaction"
    return "turn"


def forced_tool(body: dict[str, Any]) -> str | None:
    """The tool that must be called: no CLI forces one, whoever wants a judgement in a fixed shape does."""
    choice = body.get("tool_choice")
    forced = isinstance(choice, dict) and choice.get("type") == "tool"
    return str(choice.get("name")) if isinstance(choice, dict) and forced else None


def is_nudge(text: str) -> bool:
    """Whether the CLI itself, not a person, asks the model to go on with the same turn."""
    return bool(_NUDGES.search(text))


def is_prompt(text: str) -> bool:
    """Whether a text of a user message is something the person said (or the CLI said in their place)."""
    bare = re.sub(r"<system-reminder>.*?</system-reminder>", "", text, flags=re.DOTALL).strip()
    return bool(bare) and not bare.startswith(INTERRUPTED) and CONTINUED not in bare and not is_nudge(bare)


def scenario_line(messages: list[Message]) -> str | None:
    """The NAME of a line `scenario: NAME` in what was said before the first answer, else None.

    The line may be quoted, a list item or in backticks, as it comes out of an issue's text.
    """
    for message in messages:
        if message.role == "assistant":
            break
        for text in message.texts():
            found = _SCENARIO_LINE.search(text.replace("\r\n", "\n")) if message.role == "user" else None
            if found:
                return found.group(1)
    return None


def quoted_scenario(messages: list[Message]) -> str | None:
    """As `scenario_line`, where the issue's text stands inside other data (as JSON writes it, without line ends)."""
    found = (_QUOTED_SCENARIO.search(text) for message in messages for text in message.texts())
    return next((one.group(1) for one in found if one), None)


def find_workspace(body: dict[str, Any], messages: list[Message]) -> str | None:
    """The directory the CLI says it works in; the newest mention wins (a resumed session may have moved)."""
    said = [text_of(body.get("system"))]
    said += [text for message in messages if message.role != "assistant" for text in message.texts()]
    for text in reversed(said):
        found = _WORKSPACE.search(text)
        if found:
            return found.group(1).strip()
    return None


def session_of(body: dict[str, Any], header: str | None) -> str | None:
    """The CLI's session id: from its header, else from the metadata."""
    if header:
        return header
    metadata = body.get("metadata")
    user_id = metadata.get("user_id") if isinstance(metadata, dict) else None
    try:
        inner = json.loads(user_id) if isinstance(user_id, str) else None
    except ValueError:
        return None
    session = inner.get("session_id") if isinstance(inner, dict) else None
    return session if isinstance(session, str) else None
