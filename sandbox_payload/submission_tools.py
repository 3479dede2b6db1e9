"""The tools by which the agent hands in what a phase came to: one per phase, run in this process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from claude_agent_sdk import McpSdkServerConfig, SdkMcpTool, create_sdk_mcp_server

from sandbox_payload.submissions import SERVER, Submissions, full_name, tool_of
from sandbox_payload.wire.plan import PhaseOrder


@dataclass(frozen=True)
class OwnTools:
    """`names`: as the model sees and calls them."""

    servers: dict[str, McpSdkServerConfig]
    names: list[str]

    def __add__(self, other: OwnTools) -> OwnTools:
        return OwnTools({**self.servers, **other.servers}, [*self.names, *other.names])


NO_TOOLS = OwnTools({}, [])


def submission_tools(submissions: Submissions) -> OwnTools:
    """The tools of all phases that `submissions` knows the orders of."""
    tools = [_tool(order, submissions) for order in submissions.orders.values()]
    names = [full_name(phase) for phase in submissions.orders]
    return OwnTools({SERVER: create_sdk_mcp_server(SERVER, tools=tools)}, names)


def _tool(order: PhaseOrder, submissions: Submissions) -> SdkMcpTool[Any]:
    async def hand_in(handed: dict[str, Any]) -> dict[str, Any]:
        answer = submissions.hand_in(order.name, handed)
        return {"content": [{"type": "text", "text": answer.text}], "is_error": answer.is_error}

    return SdkMcpTool(
        name=tool_of(order.name),
        description=f"Hands in the whole output of the planning phase {order.name}. A later call replaces it.",
        input_schema=order.output_schema,
        handler=hand_in,
    )
