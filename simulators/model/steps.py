"""Steps of a script in short, as the built-in scenarios are written."""

from simulators.model.script import Script, Step, ToolUse


def bash(command: str, text: str | None = None, *, background: bool = False, **more: str) -> Step:
    options: dict[str, object] = {"run_in_background": True} if background else {}
    return Step(
        text=text, tool_use=[ToolUse(name="Bash", input={"command": command, **options})], capture=more
    )


def read(path: str, **capture: str) -> Step:
    return Step(
        tool_use=[ToolUse(name="Read", input={"file_path": f"{{workspace}}/{path}"})], capture=capture
    )


def write(path: str, content: str, text: str | None = None, gate: str | None = None) -> Step:
    """Write a file; when it is there already the tool wants it to be read first."""
    call = ToolUse(name="Write", input={"file_path": f"{{workspace}}/{path}", "content": content})
    return Step(text=text, tool_use=[call], gate=gate, on_error=[read(path), Step(tool_use=[call])])


def edit(path: str, old: str, new: str, text: str | None = None) -> Step:
    edited = {"file_path": f"{{workspace}}/{path}", "old_string": old, "new_string": new}
    return Step(text=text, tool_use=[ToolUse(name="Edit", input=edited)])


def say(text: str) -> Step:
    return Step(text=text)


def script(summary: str, *turns: list[Step]) -> Script:
    return Script(summary=summary, turns=list(turns))
