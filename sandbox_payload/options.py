"""How the agent's command line is started."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import claude_agent_sdk
from claude_agent_sdk import ClaudeAgentOptions

from sandbox_payload.inputs import Inputs
from sandbox_payload.session import Opening
from sandbox_payload.state import config_directory
from sandbox_payload.submission_tools import OwnTools

TOOLS = ["Read", "Write", "Edit", "Bash", "Glob", "Grep", "Task", "Skill"]
MAX_LINE_BYTES = 50_000_000
"""One message of the command line; the SDK's own limit of 1 MiB ends the session on a picture."""


def agent_options(
    inputs: Inputs, opening: Opening, own_tools: OwnTools, on_stderr: Callable[[str], None]
) -> ClaudeAgentOptions:
    """The agent in its session, with its tools and limits; texts travel in files and over stdin only."""
    brief = inputs.brief
    extra: dict[str, str | None] = {"replay-user-messages": None}
    if inputs.system_file is not None:
        extra["append-system-prompt-file"] = str(inputs.system_file)
    return ClaudeAgentOptions(
        cwd=inputs.workspace,
        env=_environment(inputs),
        cli_path=_guarded_cli(inputs.state),
        model=brief.model,
        session_id=None if opening.resumes else opening.session_id,
        resume=opening.session_id if opening.resumes else None,
        system_prompt={"type": "preset", "preset": "claude_code"},
        extra_args=extra,
        tools=list(TOOLS),
        allowed_tools=[*TOOLS, *own_tools.names],
        mcp_servers={**own_tools.servers},
        permission_mode=brief.permission_mode,
        setting_sources=["project"],
        strict_mcp_config=True,
        max_turns=brief.max_turns,
        max_budget_usd=brief.max_budget_usd,
        max_buffer_size=MAX_LINE_BYTES,
        verbatim_prompts=True,
        stderr=on_stderr,
    )


def _environment(inputs: Inputs) -> dict[str, str]:
    environment = {
        **inputs.cli_tuning,
        "ANTHROPIC_BASE_URL": inputs.model_url,
        "ANTHROPIC_API_KEY": inputs.model_key,
        "CLAUDE_CONFIG_DIR": str(config_directory(inputs.state)),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS": "1",
        "ENABLE_TOOL_SEARCH": "false",
    }
    if inputs.brief.permission_mode == "bypassPermissions":
        environment["IS_SANDBOX"] = "1"  # without it the command line refuses this mode to root
    return environment


def _guarded_cli(state: Path) -> Path:
    """An executable that starts the SDK's command line below our guard (see `guard`)."""
    bundled = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
    guard = Path(__file__).with_name("guard.py")
    words = [sys.executable, "-I", "-S", str(guard), str(bundled)]
    launcher = state / "claude-guarded"
    temporary = launcher.with_suffix(".new")
    temporary.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    temporary.chmod(0o700)
    os.replace(temporary, launcher)  # noqa: PTH105
    return launcher
