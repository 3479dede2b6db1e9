import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from claude_agent_sdk import ClaudeAgentOptions

from simulators.model import ModelSimulator
from simulators.model.server import serving

KEY = "model-key-for-tests"
DEADLINE_S = 20.0


@pytest.fixture
def model() -> ModelSimulator:
    return ModelSimulator(KEY)


@pytest.fixture
async def url(model: ModelSimulator) -> AsyncIterator[str]:
    async with serving(model) as base:
        yield base


@pytest.fixture
async def http(model: ModelSimulator) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application itself, without a server between."""
    transport = httpx.ASGITransport(model.app)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://model", headers={"x-api-key": KEY}
    ) as client:
        yield client


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, failing the test when it does not come true in time."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0.01)


@dataclass
class Chat:
    """A client that keeps its history as the CLI does, without running any tool."""

    http: httpx.AsyncClient
    scenario: str | None = None
    session: str = "session-1"
    agent: str | None = None
    messages: list[dict[str, Any]] = field(default_factory=list)

    async def ask(self, **more: Any) -> httpx.Response:
        """Send the history as it is."""
        headers = {"x-claude-code-session-id": self.session}
        if self.agent:
            headers["x-claude-code-agent-id"] = self.agent
        prefix = f"/s/{self.scenario}" if self.scenario else ""
        system = [{"type": "text", "text": "Environment:\n - Primary working directory: /repo/tree\n"}]
        body = {"model": "some-model", "max_tokens": 100, "system": system, "messages": self.messages} | more
        return await self.http.post(f"{prefix}/v1/messages?beta=true", json=body, headers=headers)

    async def say(self, text: str, **more: Any) -> dict[str, Any]:
        """Say something and keep the answer."""
        self.messages.append({"role": "user", "content": [{"type": "text", "text": text}]})
        return await self._keep(**more)

    async def report(self, output: str, *beside: str, is_error: bool = False) -> dict[str, Any]:
        """Give every open tool call the same result, with texts beside it, and keep the answer."""
        calls = [block for block in self.messages[-1]["content"] if block["type"] == "tool_use"]
        content: list[dict[str, Any]] = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": output, "is_error": is_error}
            for call in calls
        ]
        content += [{"type": "text", "text": text} for text in beside]
        self.messages.append({"role": "user", "content": content})
        return await self._keep()

    async def _keep(self, **more: Any) -> dict[str, Any]:
        response = await self.ask(**more)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        self.messages.append({"role": "assistant", "content": answer["content"]})
        return answer


def text_in(answer: dict[str, Any]) -> str:
    return "".join(block.get("text", "") for block in answer["content"])


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "README.md").write_text("# Example\n")
    author = ["-c", "user.name=alice", "-c", "user.email=alice@example.com"]
    for command in (["init", "-q"], ["add", "-A"], [*author, "commit", "-q", "-m", "Start"]):
        subprocess.run(["git", *command], cwd=tree, check=True)
    return tree


@pytest.fixture
def options(url: str, repository: Path, tmp_path: Path) -> Callable[..., ClaudeAgentOptions]:
    def build(scenario: str | None = None, **more: Any) -> ClaudeAgentOptions:
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        env = {
            "ANTHROPIC_BASE_URL": f"{url}/s/{scenario}" if scenario else url,
            "ANTHROPIC_API_KEY": KEY,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "HOME": str(home),
            "CLAUDE_CONFIG_DIR": str(home / ".claude"),
            "ENABLE_TOOL_SEARCH": "false",
            "CLAUDE_CODE_MAX_RETRIES": "2",
            "API_TIMEOUT_MS": "20000",
            "CLAUDE_ENABLE_BYTE_WATCHDOG": "1",
            "CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS": "10000",
        }
        settings: dict[str, Any] = {
            "cwd": repository,
            "env": env,
            "permission_mode": "acceptEdits",
            "allowed_tools": ["Bash"],
            "setting_sources": ["project"],
            "tools": ["Read", "Write", "Edit", "Bash", "Glob", "Grep", "Task", "Skill"],
            "max_buffer_size": 50_000_000,
            "verbatim_prompts": True,
            "extra_args": {"replay-user-messages": None},
        }
        return ClaudeAgentOptions(**(settings | more))

    return build
