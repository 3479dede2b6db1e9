"""`python -m bench.floor MODEL_URL API_KEY`: the agent's SDK alone, from connect to its first request to the model.

Prints the seconds. The import of the SDK is not counted, as an application would have it loaded.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time

import httpx
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

LIMIT_S = 30.0


async def main(model_url: str, api_key: str) -> float:
    with tempfile.TemporaryDirectory(prefix="iw-floor-") as directory:
        options = ClaudeAgentOptions(
            cwd=directory,
            env={
                "ANTHROPIC_BASE_URL": model_url,
                "ANTHROPIC_API_KEY": api_key,
                "CLAUDE_CONFIG_DIR": directory,
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "ENABLE_TOOL_SEARCH": "false",
            },
            system_prompt={"type": "preset", "preset": "claude_code"},
            setting_sources=["project"],
        )
        started = time.monotonic()
        async with ClaudeSDKClient(options) as client:
            await client.query("Say hello.")
            async with httpx.AsyncClient(trust_env=False) as http:
                return await _first_request(http, model_url, started) - started


async def _first_request(http: httpx.AsyncClient, model_url: str, since: float) -> float:
    """When the model was asked; the simulated one keeps the times (`time.monotonic` of this machine)."""
    while time.monotonic() - since < LIMIT_S:
        answer = await http.get(f"{model_url}/_sim/requests", params={"body": "0"})
        times = [float(one["at_monotonic_s"]) for one in answer.json()["requests"]]
        found = min((at for at in times if at >= since), default=None)
        if found is not None:
            return found
        await asyncio.sleep(0.02)
    raise TimeoutError("the model was never asked")


if __name__ == "__main__":
    print(asyncio.run(main(*sys.argv[1:])))
